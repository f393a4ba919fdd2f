// Numeric settings and the values they take. Pure.
//
// The error for a wrong number names the setting, its value and what it may be; "not a number" and
// infinity are never in bounds.
#pragma once

#include <string_view>

#include "base/status.hpp"

namespace paro {

struct Bounds {
  double least = 0;
  double most = 0;
  bool least_excluded = false;
  bool most_excluded = false;
};

// Ok, or "AdamW: beta1 is 1; allowed is [0, 1)".
[[nodiscard]] ho::Status check_bounds(std::string_view owner,
                                      std::string_view name,
                                      double value,
                                      const Bounds& bounds);

}  // namespace paro
