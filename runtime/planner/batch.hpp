// The micro-batch of a strategy where the batch of all ranks is fixed. Pure.
#pragma once

#include <optional>

#include "planner/figures.hpp"
#include "planner/request.hpp"
#include "planner/training.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// Of a request with `sequences`: the largest micro-batch whose activations fit beside what the
// strategy needs otherwise; the request with it, and without `sequences`. Of others as it is.
[[nodiscard]] PlannerRequest with_batch(const Strategy& strategy, const PlannerRequest& request);
// The same with the micro-batch that figures of the request have.
[[nodiscard]] PlannerRequest with_batch_of(const StrategyFigures& figures,
                                           const PlannerRequest& request);
// The request's waiting_s for its own micro-batches; where other dimensions send nothing, as it is.
void set_waiting(PlannerRequest& request);
// Of a request with `sequences`, the figures with a smaller micro-batch: at most half as many
// sequences, so that there are few of them to compare. Nothing after micro-batches of 1.
[[nodiscard]] ho::Result<std::optional<StrategyFigures>> with_smaller_batch(
    const StrategyFigures& figures, const PlannerRequest& request);

}  // namespace paro
