// Random numbers that are a function of what they are for. Pure.
//
// A weight's or a token's number depends on its own place only, so any rank can draw any of them,
// in any order, and all agree.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace paro::toy {

// 64 well-spread bits for these numbers, in this order.
[[nodiscard]] constexpr uint64_t draw(std::initializer_list<uint64_t> words) {
  uint64_t bits = 0x6a09e667f3bcc909U;
  for (const uint64_t word : words) {
    bits = (bits ^ word) * 0x9fb21c651e98df25U;
    bits ^= bits >> 29;
    bits = (bits + 0x3c6ef372fe94f82bU) * 0xd6e8feb86659fd93U;
    bits ^= bits >> 32;
  }
  return bits;
}

// 0 or more and less than 1, with 24 random places: exact in fp32.
[[nodiscard]] constexpr float fraction(uint64_t bits) {
  return static_cast<float>(bits >> 40) * 0x1p-24F;
}

}  // namespace paro::toy
