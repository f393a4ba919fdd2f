// A change of strategy in the middle of a job.
#pragma once

#include <memory>

#include "run/step_runner.hpp"

namespace paro {

struct NewStrategy {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;
  uint64_t budget_bytes = 0;  // 0: none
};

// Collective, between steps: puts another runner in the place of this one, with the same states and
// bytes sent so far, over communicators of its own. Every rank first takes its share of all states
// (a world part, 1/n of them), then lets go of the old runner, so that at no time both are there.
//
// On an error all ranks have the old runner again (what is over budget is refused so), or, where
// not even that could be made, none: `runner` is null then. A rank that has an error instead of a
// strategy tells the others. Throws nothing once the old runner is gone.
[[nodiscard]] ho::Status change_strategy(std::unique_ptr<StepRunner>& runner,
                                         const ho::Result<NewStrategy>& input);

}  // namespace paro
