// What trying a strategy came to, as a table for people and as JSON for programs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "step/traffic.hpp"
#include "strategy/strategy.hpp"

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
  ho::DType dtype = ho::DType::kFloat32;  // of parameters and gradients
  TrialTimes times;
  uint64_t steps = 0;
  uint64_t applied_steps = 0;    // the others were left out: something was not finite
  Traffic sent;                  // by all ranks, per step
  Traffic planned;               // what the step plan says
  uint64_t predicted_bytes = 0;  // of the fullest rank
  uint64_t actual_bytes = 0;     // its peak
  double loss = 0;               // of the last step
  double loss_alone = 0;         // one rank, same global batches
  double predicted_exposed = 0;  // from the critical path and measured links; below 0: not known
};

// Tells how many steps were applied where any were not.
[[nodiscard]] std::string trials_text(const std::vector<Trial>& trials);
// What went wrong with the training itself, a line each. Where no loss scale has to settle that is
// a step that was left out, else that all were; and a loss that is not one rank's, up to
// kMostComparedSteps: rounding differs from the lone rank's, and that grows with every step.
[[nodiscard]] std::vector<std::string> warnings(const std::vector<Trial>& trials);
inline constexpr uint64_t kMostComparedSteps = 100;
// Keys stay; new ones may come.
[[nodiscard]] std::string trials_json(const std::vector<Trial>& trials);

}  // namespace paro::tool
