#include "checkpoint/reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/text_file.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/part_file.hpp"

namespace paro::checkpoint {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

ho::Result<std::vector<Checksum>> checksums_of(const TensorHeader& header) {
  const auto found = header.metadata.find("checksums");
  if (found == header.metadata.end()) {
    return malformed("__metadata__ has no \"checksums\"");
  }
  std::vector<Checksum> checksums;
  for (const std::string& text : split(found->second)) {
    HORING_ASSIGN(const Checksum checksum, checksum_from(text));
    checksums.push_back(checksum);
  }
  if (checksums.size() != header.tensors.size()) {
    return malformed(std::to_string(checksums.size()) + " checksums for " +
                     std::to_string(header.tensors.size()) + " tensors");
  }
  return checksums;
}

}  // namespace

ho::Result<Reader> Reader::open(const Path& folder) {
  const Path path = folder / kManifestName;
  const auto read = ho::read_text_file(path.string(), kMaxManifestBytes);
  if (!read.ok()) {
    return read.status().with_context(path.string());
  }
  const std::string& text = *read;
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) {
    return manifest.status().with_context(path.string());
  }
  Reader reader(folder, std::move(manifest).value(), checksum_of(text.data(), text.size()));
  HORING_TRY(reader.read_headers());
  HORING_TRY(reader.check_coverage());
  return reader;
}

Path Reader::path_of(uint32_t file) const {
  return folder_ / part_file_name(file);
}

ho::DType Reader::dtype_of(const std::string& state) const {
  return state == kFrozen ? manifest_.frozen_dtype : ho::DType::kFloat32;
}

ho::Status Reader::read_headers() {
  for (uint32_t index = 0; index < manifest_.files.size(); ++index) {
    if (const ho::Status status = read_header(index); !status.ok()) {
      return status.with_context(path_of(index).string());
    }
  }
  return {};
}

ho::Status Reader::read_header(uint32_t index) {
  HORING_ASSIGN(const File file, File::open(path_of(index)));
  HORING_ASSIGN(const uint64_t file_bytes, file.size_bytes());
  if (file_bytes != manifest_.files[index].bytes) {
    return malformed(std::to_string(file_bytes) + " bytes, where the manifest has " +
                     std::to_string(manifest_.files[index].bytes));
  }
  std::string head(std::min(file_bytes, kLengthBytes), '\0');
  HORING_TRY(file.read(0, std::as_writable_bytes(std::span<char>(head))));
  HORING_ASSIGN(const uint64_t length, json_bytes(head, file_bytes));
  head.resize(kLengthBytes + length);
  HORING_TRY(file.read(0, std::as_writable_bytes(std::span<char>(head))));
  if (checksum_of(head.data(), head.size()) != manifest_.files[index].header) {
    return malformed(
        "the header's checksum is not the manifest's: the file is damaged, or of "
        "another checkpoint");
  }
  HORING_ASSIGN(const TensorHeader header,
                parse_header(std::string_view(head).substr(kLengthBytes),
                             file_bytes - kLengthBytes - length));
  HORING_ASSIGN(const std::vector<Checksum> checksums, checksums_of(header));
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const Tensor& tensor = header.tensors[i];
    HORING_TRY(add(
        index, tensor, {index, head.size() + tensor.begin, tensor.size_bytes(), checksums[i], {}}));
  }
  return {};
}

ho::Status Reader::add(uint32_t index, const Tensor& tensor, const Stored& stored) {
  if (tensor.name == kRankState) {
    if (tensor.dtype != ho::DType::kUint8 || tensor.size_bytes() > kMaxRankStateBytes) {
      return malformed("a rank_state of another type than U8, or of more than 64 MiB");
    }
    rank_states_[index] = stored;
    return {};
  }
  HORING_ASSIGN(const StatePiece piece, piece_from(tensor.name));
  const bool known = piece.state == kFrozen ||
                     std::find(manifest_.states.begin(), manifest_.states.end(), piece.state) !=
                         manifest_.states.end();
  if (piece.unit >= manifest_.units.size() || !known) {
    return malformed(escaped(tensor.name) + ": the manifest has no such unit or state");
  }
  if (tensor.dtype != dtype_of(piece.state) || tensor.shape.size() != 1 ||
      tensor.shape[0] > kMaxPieceElements) {
    return malformed(escaped(tensor.name) +
                     " has another type than in the manifest, or is no row "
                     "of at most " +
                     std::to_string(kMaxPieceElements) + " elements");
  }
  Stored row = stored;
  row.range = {piece.first_element, piece.first_element + tensor.shape[0]};
  if (row.range.end < row.range.begin) {
    return malformed(escaped(tensor.name) + " ends beyond all elements");
  }
  pieces_[{piece.unit, piece.state}].push_back(row);
  return {};
}

ho::Status Reader::check_coverage() {
  for (uint32_t u = 0; u < manifest_.units.size(); ++u) {
    for (const std::string& state : manifest_.states) {
      HORING_TRY(check_coverage({u, state}, manifest_.units[u].trained));
    }
    HORING_TRY(check_coverage({u, kFrozen}, manifest_.units[u].frozen));
  }
  return {};
}

ho::Status Reader::check_coverage(const Key& key, uint64_t elements) {
  std::vector<Stored>& pieces = pieces_[key];
  std::erase_if(pieces, [](const Stored& one) { return one.range.count() == 0; });
  std::sort(pieces.begin(), pieces.end(), [](const Stored& a, const Stored& b) {
    return a.range.begin < b.range.begin;
  });
  uint64_t next = 0;
  const auto wrong = [&](const std::string& what) {
    return malformed(folder_.string() + ": unit " + std::to_string(key.first) + " (" +
                     escaped(manifest_.units[key.first].name) + "), " + key.second + ": " + what);
  };
  for (const Stored& one : pieces) {
    if (one.range.begin != next) {
      return wrong("elements " + std::to_string(std::min(next, one.range.begin)) + " to " +
                   std::to_string(std::max(next, one.range.begin) - 1) +
                   (one.range.begin > next ? " are in no file" : " are in several files"));
    }
    next = one.range.end;
  }
  return next == elements ? ho::Status()
                          : wrong("the files have " + std::to_string(next) + " elements of " +
                                  std::to_string(elements));
}

ho::Status Reader::read_piece(const Stored& stored) const {
  if (!file_.has_value() || file_index_ != stored.file) {
    HORING_ASSIGN(file_, File::open(path_of(stored.file)));
    file_index_ = stored.file;
  }
  block_.resize(stored.bytes);
  HORING_TRY(file_->read(stored.offset, block_));
  if (checksum_of(block_.data(), block_.size()) != stored.checksum) {
    return malformed(file_->path().string() + ": the checksum of bytes " +
                     std::to_string(stored.offset) + " to " +
                     std::to_string(stored.offset + stored.bytes - 1) +
                     " is wrong: the file is damaged; load an earlier checkpoint");
  }
  return {};
}

ho::Status Reader::read(uint32_t unit,
                        const std::string& state,
                        const Range& range,
                        std::span<std::byte> to) const {
  const auto found = pieces_.find({unit, state});
  const uint64_t element = ho::size_bytes(dtype_of(state));
  if (found == pieces_.end() || to.size() != range.count() * element ||
      (range.count() > 0 &&
       (found->second.empty() || found->second.back().range.end < range.end))) {
    return ho::invalid(folder_.string() + " has no such elements: unit " + std::to_string(unit) +
                       ", " + state + ", " + std::to_string(range.begin) + " to " +
                       std::to_string(range.end));
  }
  auto piece = std::upper_bound(
      found->second.begin(), found->second.end(), range.begin, [](uint64_t at, const Stored& one) {
        return at < one.range.end;
      });
  for (uint64_t next = range.begin; next < range.end; ++piece) {
    HORING_TRY(read_piece(*piece));
    const uint64_t end = std::min(range.end, piece->range.end);
    std::memcpy(to.data() + (next - range.begin) * element,
                block_.data() + (next - piece->range.begin) * element,
                (end - next) * element);
    next = end;
  }
  return {};
}

ho::Result<std::vector<std::byte>> Reader::rank_state(size_t rank) const {
  const auto found = rank_states_.find(static_cast<uint32_t>(rank));
  if (found == rank_states_.end() || rank > UINT32_MAX) {
    return std::vector<std::byte>();
  }
  HORING_TRY(read_piece(found->second));
  return block_;
}

ho::Status Reader::verify(const std::function<void(uint64_t, uint64_t)>& progress) const {
  uint64_t all = 0;
  uint64_t done = 0;
  for (const PartFile& file : manifest_.files) {
    all += file.bytes;
  }
  const auto check = [&](const Stored& stored) -> ho::Status {
    HORING_TRY(read_piece(stored));
    done += stored.bytes;
    if (progress) {
      progress(done, all);
    }
    return {};
  };
  for (const auto& [key, pieces] : pieces_) {
    for (const Stored& stored : pieces) {
      HORING_TRY(check(stored));
    }
  }
  for (const auto& [file, stored] : rank_states_) {
    HORING_TRY(check(stored));
  }
  return {};
}

}  // namespace paro::checkpoint
