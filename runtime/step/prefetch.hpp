// How many units to gather ahead if the options do not set it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/unit_layout.hpp"

namespace paro {

inline constexpr uint32_t kMaxAutomaticPrefetch = 3;

// A gather that starts d units ahead hides behind the computation of d units, and the time of both
// grows with the elements. So: the least d for which any d neighbours together are as large as the
// largest unit. At most kMaxAutomaticPrefetch, since each takes a buffer of the largest unit, and
// at most all units but one; 1 where units have equal sizes.
[[nodiscard]] uint32_t automatic_prefetch(const std::vector<UnitShape>& units);

}  // namespace paro
