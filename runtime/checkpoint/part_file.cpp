#include "checkpoint/part_file.hpp"

#include <algorithm>

#include "base/quantity.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/safetensors.hpp"

namespace paro::checkpoint {
namespace {

// Collects what a file will have, then writes it.
class PartWriter {
 public:
  void add(std::string name, ho::DType dtype, std::span<const std::byte> bytes) {
    append(header_, std::move(name), dtype, {bytes.size() / ho::size_bytes(dtype)});
    pieces_.push_back(bytes);
  }

  void add(const StatePart& part, const std::string& state) {
    const uint64_t element = ho::size_bytes(part.dtype);
    std::span<const std::byte> left(part.values);
    for (uint64_t first = part.range.begin; first < part.range.end; first += kMaxPieceElements) {
      const uint64_t bytes = std::min(kMaxPieceElements, part.range.end - first) * element;
      add(to_string(StatePiece{part.unit, state, first}), part.dtype, left.first(bytes));
      left = left.subspan(bytes);
    }
  }

  [[nodiscard]] ho::Result<PartFile> write(const Path& path) {
    std::vector<Checksum> checksums(pieces_.size());
    std::string head = header_with(checksums);
    if (head.size() > kMaxHeaderBytes) {
      return ho::Status(ho::StatusCode::kUnsupported,
                        path.string() + ": too many pieces for one file's header");
    }
    HORING_ASSIGN(File file, File::create(path));
    HORING_TRY(file.write(head));
    uint64_t bytes = head.size();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      checksums[i] = checksum_of(pieces_[i].data(), pieces_[i].size());
      HORING_TRY(file.write(pieces_[i]));
      bytes += pieces_[i].size();
    }
    head = header_with(checksums);  // as long as before
    HORING_TRY(file.write_over(head));
    HORING_TRY(file.sync());
    return PartFile{bytes, checksum_of(head.data(), head.size())};
  }

 private:
  [[nodiscard]] std::string header_with(const std::vector<Checksum>& checksums) {
    std::string text;
    for (const Checksum& checksum : checksums) {
      text += (text.empty() ? "" : ",") + to_string(checksum);
    }
    header_.metadata = {{"format", "paro part"}, {"checksums", text}};
    return to_bytes(header_);
  }

  TensorHeader header_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace

std::string to_string(const StatePiece& piece) {
  return std::to_string(piece.unit) + "/" + piece.state + "/" + std::to_string(piece.first_element);
}

ho::Result<StatePiece> piece_from(const std::string& name) {
  const std::string_view text(name);
  const size_t first = text.find('/');
  const size_t last = text.rfind('/');
  const auto unit = ho::whole_number<decltype(StatePiece::unit)>(text.substr(0, first));
  const auto first_element =
      ho::whole_number<decltype(StatePiece::first_element)>(text.substr(last + 1));
  if (first == std::string_view::npos || last == first || !unit || !first_element) {
    return malformed(escaped(name) + " is no piece's name (UNIT/STATE/FIRST)");
  }
  return StatePiece{*unit, name.substr(first + 1, last - first - 1), *first_element};
}

ho::Result<PartFile> write_part_file(const Path& path,
                                     const std::vector<StatePart>& parts,
                                     const std::vector<std::string>& states,
                                     std::span<const std::byte> rank_state) {
  PartWriter writer;
  for (const StatePart& part : parts) {
    writer.add(part, part.state == kFrozenState ? kFrozen : states.at(part.state));
  }
  if (!rank_state.empty()) {
    writer.add(kRankState, ho::DType::kUint8, rank_state);
  }
  return writer.write(path);
}

}  // namespace paro::checkpoint
