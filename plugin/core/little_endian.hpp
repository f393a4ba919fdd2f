// Numbers in bytes that go to another host. The caller has checked that they fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ho::plugin {

template <typename Integer>
void put_number(std::span<std::byte> bytes, size_t offset, Integer value) {
  using Unsigned = std::make_unsigned_t<Integer>;
  const auto wide = static_cast<uint64_t>(static_cast<Unsigned>(value));
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    bytes[offset + i] = static_cast<std::byte>((wide >> (8 * i)) & 0xffU);
  }
}

template <typename Integer>
[[nodiscard]] Integer get_number(std::span<const std::byte> bytes, size_t offset) {
  uint64_t wide = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) {
    wide |= std::to_integer<uint64_t>(bytes[offset + i]) << (8 * i);
  }
  return static_cast<Integer>(static_cast<std::make_unsigned_t<Integer>>(wide));
}

}  // namespace ho::plugin
