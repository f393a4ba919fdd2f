// A plan as a Python program that shards a model by it and trains a step: on FSDP2 alone, or with
// paro.torch. Pure.
//
// FSDP2 splits gradients and the optimizer's state over the ranks that split the parameters, so it
// has 9 of the strategies; paro.torch has all but GIG.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "planner/text/answer.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// Of a report whose options have `export_to`: the strategy that they name, or the recommended one.
// Refused where the target cannot have it, with the nearest that it can.
[[nodiscard]] ho::Result<std::string> program_text(const Report& report);

[[nodiscard]] bool can_have(ExportTarget target, const Strategy& strategy);

}  // namespace paro
