// What the members of a rail must have in common, as text: lines of "what=value". All members write
// the same lines in the same order, so that the first line that differs names the difference.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ho::plugin::rail {

inline constexpr size_t kMaxConsistencyBytes = 4096;

struct Difference {
  std::string what;
  std::string first;  // its value on either side
  std::string second;
};

// Either text may be anything: they arrive from peers. What is shown of them is printable and
// short.
[[nodiscard]] std::optional<Difference> first_difference(std::string_view first,
                                                         std::string_view second);

}  // namespace ho::plugin::rail
