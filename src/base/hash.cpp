#include "base/hash.hpp"

#include <array>

#include "base/bytes.hpp"

// Compiled in here: libhoring and the NCCL plugin need no library for it.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ho {

Hash& Hash::add(std::span<const std::byte> bytes) {
  value_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), value_);
  return *this;
}

Hash& Hash::add(uint64_t number) {
  std::array<std::byte, sizeof number> bytes{};
  store_le(bytes, 0, number);
  return add(bytes);
}

}  // namespace ho
