// The order in which a host launches the actions of a step on a device's streams. Pure.
#pragma once

#include <vector>

#include "step/action_cost.hpp"
#include "step/data_order.hpp"
#include "step/streams.hpp"

namespace paro {

// `waits` by step action of the two steps.
[[nodiscard]] std::vector<Launch> launches_of(
    const StepPlan& plan,
    const DataOrder& order,
    const std::vector<std::vector<StepActionNumber>>& waits,
    const std::vector<ActionCost>& costs);

}  // namespace paro
