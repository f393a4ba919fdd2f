#include "os/copy_rate.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "os/clock.hpp"
#include "os/peer_memory.hpp"

namespace ho {
namespace {

constexpr size_t kPayloadBytes = 1U << 20;
constexpr size_t kRingBytes = 64U << 10;
constexpr int kRounds = 5;  // the fastest of each counts: other ranks start at the same time

int64_t two_copies_ns(std::byte* to, std::byte* ring, const std::byte* from) {
  const int64_t began = now_ns();
  for (size_t at = 0; at < kPayloadBytes; at += kRingBytes) {
    std::memcpy(ring, from + at, kRingBytes);
    std::memcpy(to + at, ring, kRingBytes);
  }
  return now_ns() - began;
}

}  // namespace

bool single_copy_is_faster() {
  std::vector<std::byte> from(kPayloadBytes, std::byte{1});
  std::vector<std::byte> to(kPayloadBytes);
  std::vector<std::byte> ring(kRingBytes);
  const RemoteRange remote{reinterpret_cast<uint64_t>(from.data()), from.size()};
  const std::array<std::span<std::byte>, 1> local{std::span<std::byte>(to)};
  int64_t one = std::numeric_limits<int64_t>::max();
  int64_t two = one;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t began = now_ns();
    if (!read_peer_memory(::getpid(), std::span(&remote, 1), local).ok()) {
      return false;
    }
    one = std::min(one, now_ns() - began);
    two = std::min(two, two_copies_ns(to.data(), ring.data(), from.data()));
  }
  return one < two;
}

}  // namespace ho
