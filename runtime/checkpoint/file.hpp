// Files as a checkpoint uses them: every error names the call, the path, and errno's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace paro::checkpoint {

using Path = std::filesystem::path;

class File {
 public:
  // Must not be there yet.
  [[nodiscard]] static ho::Result<File> create(const Path& path);
  [[nodiscard]] static ho::Result<File> open(const Path& path);

  [[nodiscard]] const Path& path() const { return path_; }
  [[nodiscard]] ho::Result<uint64_t> size_bytes() const;
  // At the end of what was written before. write() makes the disk begin at once, append() leaves
  // that to the system.
  [[nodiscard]] ho::Status append(std::span<const std::byte> bytes);
  [[nodiscard]] ho::Status write(std::span<const std::byte> bytes);
  [[nodiscard]] ho::Status write(std::string_view text);
  // At the beginning, over what is there.
  [[nodiscard]] ho::Status write_over(std::string_view text);
  // All of them, or an error: also where the file ends before.
  [[nodiscard]] ho::Status read(uint64_t offset, std::span<std::byte> bytes) const;
  // On the disk when it returns.
  [[nodiscard]] ho::Status sync();

 private:
  File(Path path, ho::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Path path_;
  ho::Fd fd_;
  uint64_t written_ = 0;
};

// The names in a folder are on the disk when it returns.
[[nodiscard]] ho::Status sync_folder(const Path& path);

}  // namespace paro::checkpoint
