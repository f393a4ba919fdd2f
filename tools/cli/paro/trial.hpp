// One strategy tried on the toy model in a running job, and what it took.
#pragma once

#include <horing/communicator.hpp>

#include "cli/paro/toy_model/training.hpp"
#include "cli/paro/train_store.hpp"
#include "cli/paro/trial_report.hpp"
#include "planner/figures.hpp"

namespace paro::tool {

// Collective. Throws horing::Error; `request` has the links, its model is filled in here. States
// lie on the job's device, where it has one.
[[nodiscard]] Trial try_strategy(horing::Communicator& job,
                                 const toy::Training& training,
                                 const SaveSettings& saving,
                                 const PlannerRequest& request);

}  // namespace paro::tool
