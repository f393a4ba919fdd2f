// A text that is committed, and the same text as the code prints it now.
#pragma once

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace ho::test {

// Whether the file at `path` is missing or differs; says where on stderr.
inline bool differs(const std::string& path, const std::string& text) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s is missing\n", path.c_str());
    return true;
  }
  std::istringstream now(text);
  std::string want;
  std::string got;
  for (int line = 1;; ++line) {
    const bool more_want = static_cast<bool>(std::getline(file, want));
    const bool more_got = static_cast<bool>(std::getline(now, got));
    if (!more_want && !more_got) {
      return false;
    }
    if (more_want != more_got || want != got) {
      std::fprintf(stderr,
                   "%s:%d differs\n  committed: %s\n  now:       %s\n",
                   path.c_str(),
                   line,
                   more_want ? want.c_str() : "(end)",
                   more_got ? got.c_str() : "(end)");
      return true;
    }
  }
}

// Compares, or writes anew; false on a difference or a failed write.
inline bool keep_or_compare(bool update, const std::string& path, const std::string& text) {
  if (!update) {
    return !differs(path, text);
  }
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

}  // namespace ho::test
