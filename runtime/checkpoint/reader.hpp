// A checkpoint on the disk, opened: the manifest and all files' headers are read and checked at
// once, data when it is read. Whatever the files contain, the worst result is an error that names
// the file and what is wrong.
//
// Threads: a Reader may be used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors.hpp"
#include "layout/partition.hpp"

namespace paro::checkpoint {

class Reader {
 public:
  // `folder` holds the manifest. Fails unless every element of every state is in exactly one piece.
  [[nodiscard]] static ho::Result<Reader> open(const Path& folder);

  [[nodiscard]] const Path& folder() const { return folder_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  // Of the manifest's text: the same where ranks have opened the same checkpoint.
  [[nodiscard]] const Checksum& identity() const { return identity_; }
  // The type that a state's elements are stored in.
  [[nodiscard]] ho::DType dtype_of(const std::string& state) const;

  // Elements of a unit's state into `to`, which is as large as they are. The pieces that they are
  // in are read whole, to check them.
  [[nodiscard]] ho::Status read(uint32_t unit,
                                const std::string& state,
                                const Range& range,
                                std::span<std::byte> to) const;
  // What the rank gave along; empty where it gave nothing, or there was no such rank.
  [[nodiscard]] ho::Result<std::vector<std::byte>> rank_state(size_t rank) const;
  // Reads and checks everything. `progress` gets bytes done and bytes in all, often.
  [[nodiscard]] ho::Status verify(
      const std::function<void(uint64_t, uint64_t)>& progress = {}) const;

 private:
  // One tensor of one file.
  struct Stored {
    uint32_t file = 0;
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;
    Checksum checksum;
    Range range;  // of elements
  };
  using Key = std::pair<uint32_t, std::string>;  // unit and state

  Reader(Path folder, Manifest manifest, Checksum identity)
      : folder_(std::move(folder)), manifest_(std::move(manifest)), identity_(identity) {}
  [[nodiscard]] ho::Status read_headers();
  [[nodiscard]] ho::Status read_header(uint32_t index);
  [[nodiscard]] ho::Status add(uint32_t index, const Tensor& tensor, const Stored& stored);
  [[nodiscard]] ho::Status check_coverage();
  [[nodiscard]] ho::Status check_coverage(const Key& key, uint64_t elements);
  [[nodiscard]] Path path_of(uint32_t file) const;
  // Into block_, checked.
  [[nodiscard]] ho::Status read_piece(const Stored& stored) const;

  Path folder_;
  Manifest manifest_;
  Checksum identity_;
  std::map<Key, std::vector<Stored>> pieces_;  // ascending
  std::map<uint32_t, Stored> rank_states_;     // by file
  mutable std::vector<std::byte> block_;
  // The file that was read last: a large job's are more than a process may have open.
  mutable std::optional<File> file_;
  mutable uint32_t file_index_ = 0;
};

}  // namespace paro::checkpoint
