// A recommendation as text. Pure.
#pragma once

#include <string>

#include "planner/planner.hpp"

namespace paro {

// All but `why` of the recommendation is set.
[[nodiscard]] std::string reason(const Recommendation& recommendation,
                                 const PlannerRequest& request);

}  // namespace paro
