// What a rank sends in a step of one strategy. Pure.
#pragma once

#include "planner/request.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// On average over ranks; no agreement on norms, and nothing of dimensions beside data parallelism.
struct SentBytes {
  double intra = 0;  // over links of the innermost level
  double inter = 0;  // over all others
};

[[nodiscard]] SentBytes sent_bytes(const Strategy& strategy, const PlannerRequest& request);

}  // namespace paro
