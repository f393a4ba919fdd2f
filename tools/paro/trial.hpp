// One strategy tried on the toy model in a running job, and what it took.
#pragma once

#include <horing/communicator.hpp>
#include <string>
#include <vector>

#include "planner/figures.hpp"
#include "step/traffic.hpp"
#include "toy_model/training.hpp"

namespace paro::tool {

// Times in seconds per step, means over all ranks and all steps after the first two, but `exposed`,
// which is what the rank that waited least waited for communication, and `idle`, what the others
// waited beyond that: for ranks that were late.
struct TrialTimes {
  double step = 0;
  double compute = 0;
  double exposed = 0;
  double idle = 0;
  double update = 0;
  double hooks = 0;     // the runtime's own work
  double per_hook = 0;  // of that, one hook
};

struct Trial {
  Strategy strategy;
  TrialTimes times;
  Traffic sent;                  // by all ranks, per step
  Traffic planned;               // what the step plan says
  uint64_t predicted_bytes = 0;  // of the fullest rank
  uint64_t actual_bytes = 0;     // its peak
  double loss = 0;               // of the last step
  double loss_alone = 0;         // one rank, same global batches
  double predicted_exposed = 0;  // from the critical path and measured links; below 0: not known
};

// Collective. Throws horing::Error; `request` has the links, its model is filled in here.
[[nodiscard]] Trial try_strategy(horing::Communicator& job,
                                 const toy::Training& training,
                                 const PlanRequest& request);

}  // namespace paro::tool
