// What every fuzz target shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

// libFuzzer calls this with each input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fuzz {

inline std::span<const std::byte> bytes(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A property that must hold for every input; libFuzzer reports the abort as a finding.
inline void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace fuzz
