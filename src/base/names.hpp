// Names of enumerators, which count from 0.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace ho {

template <size_t kCount>
using Names = std::array<std::string_view, kCount>;

template <typename Enum, size_t kCount>
[[nodiscard]] constexpr std::string_view name_in(const Names<kCount>& names,
                                                 Enum value,
                                                 std::string_view otherwise = "unknown") {
  const auto index = static_cast<size_t>(value);
  return index < kCount ? names[index] : otherwise;
}

}  // namespace ho
