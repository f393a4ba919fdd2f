// Ports in a row that nobody has, for tests of HORING_PORT_RANGE.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "catch.hpp"
#include "os/random_bytes.hpp"
#include "os/socket.hpp"

namespace ho::test {

// `count` of them, all free just now. They lie below those that the kernel gives away by itself, so
// that between this look and a test's listeners only who asks for one by its number can come.
inline uint16_t free_ports(uint16_t count) {
  constexpr uint16_t kFirst = 12000;
  constexpr uint16_t kSpan = 20000;
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    uint16_t random = 0;
    REQUIRE(fill_random(std::as_writable_bytes(std::span(&random, 1))).ok());
    const auto first = static_cast<uint16_t>(kFirst + random % kSpan);
    std::vector<Fd> held;
    for (uint16_t i = 0; i < count; ++i) {
      auto fd = listen_on(SocketAddress::any(static_cast<uint16_t>(first + i)).back());
      if (!fd.ok()) {
        break;
      }
      held.push_back(*std::move(fd));
    }
    if (held.size() == count) {
      return first;
    }
  }
  FAIL("no " << count << " ports in a row are free");
  return 0;
}

inline std::string range_text(uint16_t first, uint16_t count) {
  return std::to_string(first) + "-" + std::to_string(first + count - 1);
}

}  // namespace ho::test
