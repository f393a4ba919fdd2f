// What a step log keeps of a runner's last step.
#pragma once

#include "observe/step_record.hpp"
#include "run/step_runner.hpp"

namespace paro::capi {

[[nodiscard]] observe::StepRecord record_of(const StepRunner& runner, const StepReport& report);

}  // namespace paro::capi
