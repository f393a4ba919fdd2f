#include "base/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ho {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10U;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      // Without waiting for the other end of a pipe; its type is checked before it is read.
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~OpenFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

Result<std::string> read_all(int fd, size_t most_bytes) {
  std::string text;
  std::string block(kBlockBytes, '\0');
  while (true) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return invalid(system_error("read", errno).message());
    }
    if (got == 0) {
      return text;
    }
    text.append(block, 0, static_cast<size_t>(got));
    if (text.size() > most_bytes) {
      return invalid("is larger than " + std::to_string(most_bytes >> 10U) + " KiB");
    }
  }
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, size_t most_bytes) {
  const OpenFile file(path);
  struct stat about {};
  if (file.fd() < 0 || ::fstat(file.fd(), &about) != 0) {
    return invalid(system_error("open", errno).message());
  }
  if (!S_ISREG(about.st_mode)) {
    return invalid("is not a regular file");
  }
  return read_all(file.fd(), most_bytes);
}

}  // namespace ho
