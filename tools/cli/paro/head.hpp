// What the figures of a plan are for, above them. Pure.
#pragma once

#include <string>

#include "planner/text/answer.hpp"

namespace paro::tool {

// Model, cluster, step, a rank's memory and notes, and an empty line.
[[nodiscard]] std::string head_text(const Report& report);

}  // namespace paro::tool
