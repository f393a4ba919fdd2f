// What a process writes to stderr, for tests of what it says there.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>

namespace ho::test {

// From now until end() or its own, at most 8 KiB of it.
class CaughtStderr {
 public:
  CaughtStderr() : file_(std::tmpfile(), &std::fclose), old_(::dup(STDERR_FILENO)) {
    if (file_ == nullptr || ::dup2(::fileno(file_.get()), STDERR_FILENO) < 0) {
      throw std::system_error(errno, std::generic_category(), "a file in stderr's place");
    }
  }
  CaughtStderr(const CaughtStderr&) = delete;
  CaughtStderr& operator=(const CaughtStderr&) = delete;
  ~CaughtStderr() { end(); }
  std::string end() {
    if (old_ >= 0) {
      ::dup2(old_, STDERR_FILENO);
      ::close(old_);
      old_ = -1;
    }
    std::array<char, 8192> text{};
    std::rewind(file_.get());
    return {text.data(), std::fread(text.data(), 1, text.size(), file_.get())};
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int old_;
};

}  // namespace ho::test
