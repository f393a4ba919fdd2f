// The hash of values that processes compare: xxHash's XXH3 in 64 bits, the same on every host. It
// detects a stale copy or a difference, not malice: keys and proofs are src/auth's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ho {

// Of a sequence: what was added in another order, or cut elsewhere, has another value.
class Hash {
 public:
  Hash() = default;
  // Goes on from the value of another one.
  explicit Hash(uint64_t value) : value_(value) {}

  Hash& add(std::span<const std::byte> bytes);
  Hash& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hash& add(uint64_t number);
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace ho
