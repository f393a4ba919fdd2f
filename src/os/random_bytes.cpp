#include "os/random_bytes.hpp"

#include <sys/random.h>

#include <cerrno>

namespace ho {

Status fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) {
      return system_error("getrandom", errno);
    }
    bytes = bytes.subspan(got < 0 ? 0 : static_cast<size_t>(got));
  }
  return {};
}

}  // namespace ho
