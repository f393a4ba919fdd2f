// The result of trying a strategy, as a table for people and as JSON for programs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "cli/paro/job/step_times.hpp"
#include "step/traffic.hpp"
#include "strategy/strategy.hpp"

namespace paro::tool {

struct Trial {
  Strategy strategy;                      // at the end: PARO_STRATEGY_FILE may have changed it
  ho::DType dtype = ho::DType::kFloat32;  // of parameters and gradients
  StepTimes times;                        // without the first two steps
  uint64_t steps = 0;                     // with those before a checkpoint that it went on from
  uint64_t first_step = 0;                // how many those were
  uint64_t strategy_since = 0;            // step that the strategy, times and bytes count from
  uint64_t applied_steps = 0;             // the others were left out: something was not finite
  Traffic sent;                           // by all ranks, per step
  bool sent_is_known = true;              // NCCL does not tell
  Traffic planned;                        // by the step plan
  PeakMemory memory;
  double loss = 0;              // of the last step
  double single_rank_loss = 0;  // one rank, same global batches
  // Otherwise the steps before a checkpoint had batches of another size: one rank's loss is none to
  // compare with.
  bool same_batches = true;
  double predicted_exposed = 0;  // from the critical path and measured links; below 0: not known
};

// Has how many steps were applied if some were not.
[[nodiscard]] std::string trials_text(const std::vector<Trial>& trials);
// What went wrong with the training itself, a line each. Where no loss scale has to settle that is
// a step that was left out, else that all were; and a loss that is not one rank's, up to
// kMaxComparedSteps: rounding differs from the single-rank baseline's, and that grows with every
// step.
[[nodiscard]] std::vector<std::string> warnings(const std::vector<Trial>& trials);
inline constexpr uint64_t kMaxComparedSteps = 100;
// Keys stay; new ones may be added.
[[nodiscard]] std::string trials_json(const std::vector<Trial>& trials);

}  // namespace paro::tool
