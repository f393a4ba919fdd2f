// What a program printed has arrived, or the program reports an error: a full disk or a closed
// descriptor would else be taken for success.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace ho {

// `status`, or 1 where that is 0 and standard output could not be written, which is printed. Once,
// when everything is printed.
inline int status_after_output(const char* program, int status) {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  const bool fails = std::fflush(stdout) != 0;
  if (!failed_before && !fails) {
    return status;
  }
  // Where an earlier write failed, the reason is lost: a line more fails again, or has room by
  // now.
  if (!fails) {
    std::clearerr(stdout);
    errno = 0;
    std::fputc('\n', stdout);
    static_cast<void>(std::fflush(stdout));
  }
  const std::string why = errno != 0 ? std::string(" (") + std::strerror(errno) + ")" : "";
  std::fprintf(stderr, "%s: standard output cannot be written%s\n", program, why.c_str());
  return status == 0 ? 1 : status;
}

}  // namespace ho
