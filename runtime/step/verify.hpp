// Proves a step plan right, or names what is wrong with it. Pure.
//
// Two steps are run on symbols. A parameter's value is the number of updates that it has seen; a
// gradient is how often each rank's share of each micro-batch is in it. The run fails unless
//  - every collective finds what it reads, on every rank that it reads from;
//  - a forward or backward finds all of its unit's parameters, all after the same number of
//  updates;
//  - at each update every share of every micro-batch is in the gradient exactly once;
//  - each parameter's gradient is exactly once in the norm, on a rank that has its sum;
//  - at the end every copy of every parameter has seen every update.
// Then no two actions that may run at the same time use a buffer that one of them writes: so what
// holds in the order of the list holds in every order. And actions of different tracks that one
// communicator takes as one sequence start in one order on all ranks, whatever their speed: else it
// would match one rank's collective with another one of its peer.
#pragma once

#include <vector>

#include "group/group_map.hpp"
#include "layout/unit_layout.hpp"
#include "step/step_plan.hpp"

namespace paro {

[[nodiscard]] ho::Status verify(const StepPlan& plan,
                                const std::vector<UnitLayout>& layouts,
                                const ho::GroupMap& groups);
// The second part alone: no unordered accesses.
[[nodiscard]] ho::Status verify_order(const StepPlan& plan);
// The third alone: no unordered starts of one communicator's collectives. Three sequences of a
// communicator are independent: all-gathers, reduce-scatters and the rest.
[[nodiscard]] ho::Status verify_sequences(const StepPlan& plan);

}  // namespace paro
