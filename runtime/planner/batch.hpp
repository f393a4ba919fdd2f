// The micro-batch of a strategy where the batch of all ranks is fixed. Pure.
#pragma once

#include "planner/request.hpp"
#include "planner/training.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// Of a request with `sequences`: the largest micro-batch whose activations fit beside what the
// strategy needs otherwise; the request with it, and without `sequences`. Of others as it is.
[[nodiscard]] PlannerRequest with_batch(const Strategy& strategy, const PlannerRequest& request);

}  // namespace paro
