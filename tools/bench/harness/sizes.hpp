// Sizes to measure, each with how many operations. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ho::harness {

inline constexpr uint32_t kMaxIterations = 10'000'000;

struct SizeRun {
  uint64_t size_bytes = 0;
  uint32_t iterations = 0;
};
// "64K:100,1M": sizes, each with its number of operations or the default; or nothing.
[[nodiscard]] std::optional<std::vector<SizeRun>> parse_sizes(std::string_view text,
                                                              uint32_t iterations);

}  // namespace ho::harness
