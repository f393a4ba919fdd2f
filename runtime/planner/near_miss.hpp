// What does not fit and would be faster, and what would make it fit. Pure.
//
// Of those whose step is shorter than the recommended one's beyond a tie, the one that lacks least;
// where nothing fits, of those as fast as the fastest of all, or of all if nothing makes one of
// these fit. Each remedy is a change of the request that is worked out anew: named are those with
// which it fits, and is still faster than what is recommended. Where there is none, nothing nearly
// fits.
#pragma once

#include <optional>

#include "base/status.hpp"
#include "planner/planner.hpp"

namespace paro {

// Figures and ranking of the recommendation are set.
[[nodiscard]] ho::Result<std::optional<NearMiss>> near_miss_of(const Recommendation& all,
                                                               const PlannerRequest& request);

// Groups of the same size with which a strategy fits, the fewest; nothing where no number does.
[[nodiscard]] std::optional<uint32_t> groups_needed(const Strategy& strategy,
                                                    const PlannerRequest& request);

}  // namespace paro
