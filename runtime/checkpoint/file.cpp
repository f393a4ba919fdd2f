#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace paro::checkpoint {
namespace {

constexpr size_t kMaxAtOnce = size_t{8} << 20;

ho::Status failed(const char* call, const Path& path) {
  return ho::system_error(std::string(call) + "(" + path.string() + ")", errno);
}

}  // namespace

ho::Result<File> File::create(const Path& path) {
  constexpr mode_t kMode = 0644;
  ho::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  return fd.valid() ? ho::Result<File>(File(path, std::move(fd)))
                    : ho::Result<File>(failed("open", path));
}

ho::Result<File> File::open(const Path& path) {
  // Not blocking: what lies there may be a pipe.
  ho::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return failed("open", path);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return failed("fstat", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return ho::invalid(path.string() + " is no regular file");
  }
  return File(path, std::move(fd));
}

ho::Result<uint64_t> File::size_bytes() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) {
    return failed("fstat", path_);
  }
  return static_cast<uint64_t>(status.st_size);
}

ho::Status File::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return failed("write", path_);
    }
    const size_t done = written < 0 ? 0 : static_cast<size_t>(written);
    written_ += done;
    bytes = bytes.subspan(done);
  }
  return {};
}

ho::Status File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), kMaxAtOnce));
    const uint64_t begin = written_;
    HORING_TRY(append(now));
    // The disk begins now, not when sync() waits for all of it. Only a hint: if it fails, nothing
    // is lost.
    static_cast<void>(::sync_file_range(fd_.get(),
                                        static_cast<off_t>(begin),
                                        static_cast<off_t>(now.size()),
                                        SYNC_FILE_RANGE_WRITE));
    bytes = bytes.subspan(now.size());
  }
  return {};
}

ho::Status File::write(std::string_view text) {
  return write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

ho::Status File::write_over(std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written =
        ::pwrite(fd_.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) {
      return failed("pwrite", path_);
    }
    done += written < 0 ? 0 : static_cast<size_t>(written);
  }
  return {};
}

ho::Status File::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(
        fd_.get(), bytes.data(), std::min(bytes.size(), kMaxAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno != EINTR) {
      return failed("read", path_);
    }
    if (got == 0) {
      return {ho::StatusCode::kProtocol,
              path_.string() + " ends at byte " + std::to_string(offset) + ", " +
                  std::to_string(bytes.size()) + " bytes too early"};
    }
    const size_t done = got < 0 ? 0 : static_cast<size_t>(got);
    bytes = bytes.subspan(done);
    offset += done;
  }
  return {};
}

ho::Status File::sync() {
  return ::fsync(fd_.get()) == 0 ? ho::Status() : failed("fsync", path_);
}

ho::Status sync_folder(const Path& path) {
  const ho::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return failed("open", path);
  }
  return ::fsync(fd.get()) == 0 ? ho::Status() : failed("fsync", path);
}

}  // namespace paro::checkpoint
