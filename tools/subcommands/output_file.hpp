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

#include "os/fd.hpp"

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

// Before anything is measured, so that a name that cannot be written costs nothing. What is in the
// file stays until there is something better, and no file is made. True where none is asked for.
inline bool can_write_file(const char* program, const char* option, const std::string& path) {
  if (path.empty()) {
    return true;
  }
  OpenBeside beside(path);
  std::error_code ignored;
  const bool is_new = std::filesystem::symlink_status(path, ignored).type() ==
                      std::filesystem::file_type::not_found;
  if (std::filesystem::is_fifo(path, ignored) && !beside.nobody_reads()) {
    beside.stay();
    return true;
  }
  if (!beside.nobody_reads() && std::ofstream(path, std::ios::app).is_open()) {
    if (is_new) {
      std::filesystem::remove(path, ignored);  // another process may have removed it: no fault
    }
    return true;
  }
  std::fprintf(stderr,
               "%s: %s %s: cannot be written (%s); nothing was done\n",
               program,
               option,
               path.c_str(),
               why_unwritable(beside));
  return false;
}

// True where no file is requested.
inline bool write_file(const char* program,
                       const char* option,
                       const std::string& path,
                       std::string_view text) {
  if (path.empty()) {
    return true;
  }
  const OpenBeside beside(path);
  std::ofstream file;
  if (!beside.nobody_reads()) {
    file.open(path);
  }
  file << text;
  file.flush();
  const bool written = file.is_open() && file.good();
  if (!written) {
    std::fprintf(stderr,
                 "%s: %s %s: cannot be written (%s)\n",
                 program,
                 option,
                 path.c_str(),
                 why_unwritable(beside));
  }
  return written;
}

}  // namespace ho
