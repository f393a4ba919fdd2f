// Files that a command writes its results to.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace ho {

// Before anything is measured, so that a name that cannot be written costs nothing. What is in the
// file stays until there is something better. True where no file is asked for.
inline bool can_write_file(const char* program, const char* option, const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::app).is_open()) {
    return true;
  }
  std::fprintf(stderr,
               "%s: %s %s: cannot be written (%s); nothing was done\n",
               program,
               option,
               path.c_str(),
               std::strerror(errno));
  return false;
}

// True where no file is asked for.
inline bool write_file(const char* program,
                       const char* option,
                       const std::string& path,
                       std::string_view text) {
  if (path.empty()) {
    return true;
  }
  std::ofstream file(path);
  file << text;
  file.flush();
  if (!file) {
    std::fprintf(stderr, "%s: %s %s: cannot be written\n", program, option, path.c_str());
  }
  return static_cast<bool>(file);
}

}  // namespace ho
