// A recommendation as text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace paro {

// Recommendation::reasons, of one that has all else.
[[nodiscard]] std::vector<std::string> reasons(const Recommendation& recommendation,
                                               const PlannerRequest& request);

// Adds to a sentence why groups of `size`, with which `best` is the best of all sizes, and not of
// another size, with `other`.
void add_size_reason(const StrategyFigures& best,
                     uint32_t size,
                     const StrategyFigures& other,
                     uint32_t other_size,
                     std::string& sentence);

}  // namespace paro
