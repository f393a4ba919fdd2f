#include "checkpoint/part_file.hpp"

#include <algorithm>
#include <charconv>

#include "checkpoint/json.hpp"
#include "checkpoint/safetensors.hpp"

namespace paro::checkpoint {
namespace {

// Collects what a file will have, then writes it.
class PartWriter {
 public:
  void add(std::string name, ho::DType dtype, std::span<const std::byte> bytes) {
    append(header_, std::move(name), dtype, {bytes.size() / ho::size_bytes(dtype)});
    checksums_ +=
        (checksums_.empty() ? "" : ",") + to_text(checksum_of(bytes.data(), bytes.size()));
    spans_.push_back(bytes);
  }

  void add(uint32_t unit, const std::string& state, const PartValues& values) {
    const uint64_t element = ho::size_bytes(values.dtype);
    std::span<const std::byte> left(values.bytes);
    for (const Range& range : values.ranges) {
      for (uint64_t first = range.begin; first < range.end; first += kMostPieceElements) {
        const uint64_t bytes = std::min(kMostPieceElements, range.end - first) * element;
        add(to_text(Piece{unit, state, first}), values.dtype, left.first(bytes));
        left = left.subspan(bytes);
      }
    }
  }

  [[nodiscard]] ho::Result<PartFile> write(const Path& path) {
    header_.metadata = {{"format", "paro part"}, {"checksums", checksums_}};
    const std::string head = to_bytes(header_);
    if (head.size() > kMostHeaderBytes) {
      return ho::Status(ho::StatusCode::kUnsupported,
                        path.string() + ": too many pieces for one file's header");
    }
    HORING_ASSIGN(File file, File::create(path));
    HORING_TRY(file.write(head));
    uint64_t bytes = head.size();
    for (const auto& span : spans_) {
      HORING_TRY(file.write(span));
      bytes += span.size();
    }
    HORING_TRY(file.sync());
    return PartFile{bytes, checksum_of(head.data(), head.size())};
  }

 private:
  TensorHeader header_;
  std::string checksums_;
  std::vector<std::span<const std::byte>> spans_;
};

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string to_text(const Piece& piece) {
  return std::to_string(piece.unit) + "/" + piece.state + "/" + std::to_string(piece.first_element);
}

ho::Result<Piece> piece_from(const std::string& name) {
  const std::string_view text(name);
  const size_t first = text.find('/');
  const size_t last = text.rfind('/');
  Piece piece;
  if (first == std::string_view::npos || last == first ||
      !parse_number(text.substr(0, first), piece.unit) ||
      !parse_number(text.substr(last + 1), piece.first_element)) {
    return malformed(shown(name) + " is no piece's name (UNIT/STATE/FIRST)");
  }
  piece.state = text.substr(first + 1, last - first - 1);
  return piece;
}

ho::Result<PartFile> write_part_file(const Path& path,
                                     const Snapshot& snapshot,
                                     const std::vector<std::string>& states,
                                     std::span<const std::byte> rank_state) {
  PartWriter writer;
  for (uint32_t u = 0; u < snapshot.units.size(); ++u) {
    const UnitSnapshot& unit = snapshot.units[u];
    for (size_t i = 0; i < unit.states.size(); ++i) {
      writer.add(u, states.at(i), unit.states[i]);
    }
    writer.add(u, kFrozen, unit.frozen);
  }
  if (!rank_state.empty()) {
    writer.add(kRankState, ho::DType::kUint8, rank_state);
  }
  return writer.write(path);
}

}  // namespace paro::checkpoint
