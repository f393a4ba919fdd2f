#include "os/written_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include "os/random_bytes.hpp"

namespace ho {
namespace {

constexpr mode_t kMode = 0666;  // less the process's mask
constexpr mode_t kPermissions = 0777;

std::string kind_of_file(mode_t mode) {
  switch (mode & mode_t{S_IFMT}) {
    case S_IFLNK:
      return "a symbolic link";
    case S_IFDIR:
      return "a directory";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFIFO:
      return "a named pipe";
    default:
      return "a socket";
  }
}

Status check_regular(const std::string& path, mode_t mode) {
  return S_ISREG(mode) ? Status()
                       : invalid(path + ": is " + kind_of_file(mode) +
                                 ", no regular file; give the name of a file");
}

Status check_kind(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0) {
    return check_regular(path, there.st_mode);
  }
  return errno == ENOENT ? Status() : system_error("lstat " + path, errno);
}

}  // namespace

// Nobody can have put something there before: the name is not to be guessed, and has to be free.
Result<FreshFile> make_beside(const std::string& path, mode_t mode) {
  constexpr int kTries = 8;
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    uint64_t number = 0;
    HORING_TRY(fill_random(std::as_writable_bytes(std::span(&number, 1))));
    std::array<char, 20> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
    std::string name = path + ".unfinished-" + digits.data();
    Fd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (fd.valid()) {
      return FreshFile{std::move(fd), std::move(name)};
    }
    error = errno;
    if (error != EEXIST) {
      break;
    }
  }
  return system_error("making a file beside " + path, error);
}

Status check_replaceable(const std::string& path) {
  HORING_TRY(check_kind(path));
  HORING_ASSIGN(const FreshFile fresh, make_beside(path, kMode));
  return ::unlink(fresh.path.c_str()) == 0 ? Status()
                                           : system_error("unlink(" + fresh.path + ")", errno);
}

Status write_text(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return system_error("write " + path, errno);
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  return {};
}

Status replace_file(const std::string& path, std::string_view text) {
  struct stat there {};
  const bool is_there = ::lstat(path.c_str(), &there) == 0;
  if (is_there) {
    HORING_TRY(check_regular(path, there.st_mode));
  }
  HORING_ASSIGN(const FreshFile fresh, make_beside(path, kMode));
  Status status = write_text(fresh.fd.get(), text, path);
  if (status.ok() && is_there && ::fchmod(fresh.fd.get(), there.st_mode & kPermissions) != 0) {
    status = system_error("fchmod, with the permissions of " + path, errno);
  }
  if (status.ok() && ::rename(fresh.path.c_str(), path.c_str()) != 0) {
    status = system_error("replacing " + path, errno);
  }
  if (!status.ok()) {
    ::unlink(fresh.path.c_str());
  }
  return status;
}

Result<Fd> open_log_file(const std::string& path) {
  // To read too, for who looks at what others have written; without waiting, where it is a pipe.
  Fd fd(::open(path.c_str(),
               O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
               kMode));
  const int error = errno;
  if (!fd.valid()) {
    HORING_TRY(check_kind(path));
    return system_error("open " + path, error);
  }
  struct stat opened {};
  if (::fstat(fd.get(), &opened) != 0) {
    return system_error("fstat " + path, errno);
  }
  HORING_TRY(check_regular(path, opened.st_mode));
  return fd;
}

}  // namespace ho
