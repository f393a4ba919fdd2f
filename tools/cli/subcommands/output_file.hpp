// Files that a command writes its results to.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/escaped.hpp"
#include "os/fd.hpp"
#include "os/written_file.hpp"

namespace ho {

// While it lives, opening the file to write does not wait: a named pipe has a writer already.
class OpenBeside {
 public:
  explicit OpenBeside(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)),
        nobody_reads_(!fd_.valid() && errno == ENXIO) {}
  // A named pipe that no process reads; opening that would wait for ever.
  [[nodiscard]] bool nobody_reads() const { return nobody_reads_; }
  // A reader does not see an end before this program's.
  void stay() { static_cast<void>(fd_.release()); }

 private:
  Fd fd_;
  bool nobody_reads_;
};

// Why the last file could not be opened.
inline const char* why_unwritable(const OpenBeside& beside) {
  return beside.nobody_reads() ? "no process reads from it" : std::strerror(errno);
}

// What is written in place, as it is there: named pipes, devices, and what /dev/stdout and the like
// stand for. Any other file is replaced whole, and a symbolic link is refused.
inline bool written_in_place(const std::string& path) {
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path, ignored).type();
  return path.starts_with("/dev/") || path.starts_with("/proc/self/fd/") ||
         type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character;
}

// Whether there is no reason why it cannot be.
inline bool say_if_unwritable(const char* program,
                              const char* option,
                              const std::string& path,
                              const std::string& why,
                              const char* effect) {
  if (!why.empty()) {
    std::fprintf(stderr,
                 "%s: %s %s: cannot be written (%s)%s\n",
                 program,
                 option,
                 escaped(path).c_str(),
                 why.c_str(),
                 effect);
  }
  return why.empty();
}

// Before anything is measured, so that a name that cannot be written costs nothing. What is in the
// file stays until there is something better, and no file is made. True where none is asked for.
inline bool can_write_file(const char* program, const char* option, const std::string& path) {
  if (path.empty()) {
    return true;
  }
  std::string why;
  if (!written_in_place(path)) {
    why = check_replaceable(path).message();
  } else {
    OpenBeside beside(path);
    std::error_code ignored;
    if (std::filesystem::is_fifo(path, ignored) && !beside.nobody_reads()) {
      beside.stay();
      return true;
    }
    const bool opens = !beside.nobody_reads() && std::ofstream(path, std::ios::app).is_open();
    why = opens ? "" : why_unwritable(beside);
  }
  return say_if_unwritable(program, option, path, why, "; nothing was done");
}

// True where no file is requested.
inline bool write_file(const char* program,
                       const char* option,
                       const std::string& path,
                       std::string_view text) {
  if (path.empty()) {
    return true;
  }
  std::string why;
  if (!written_in_place(path)) {
    why = replace_file(path, text).message();
  } else {
    const OpenBeside beside(path);
    std::ofstream file;
    if (!beside.nobody_reads()) {
      file.open(path);
    }
    file << text;
    file.flush();
    why = file.is_open() && file.good() ? "" : why_unwritable(beside);
  }
  return say_if_unwritable(program, option, path, why, "");
}

}  // namespace ho
