// A recommendation as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace paro {

// Recommendation::reasons, of one that has all else.
[[nodiscard]] std::vector<std::string> reasons(const Recommendation& recommendation,
                                               const PlannerRequest& request);

}  // namespace paro
