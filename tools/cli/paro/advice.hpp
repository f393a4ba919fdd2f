// What a recommendation says below its figures, a line each. Pure.
#pragma once

#include <string>
#include <vector>

#include "planner/text/answer.hpp"

namespace paro::tool {

// What is recommended and why, and the runner-up, as two lines. Where nothing fits, by how much.
[[nodiscard]] std::string reason_text(const Recommendation& recommendation);

// The fastest, the smallest that is as fast, the simplest, what nearly fits, the recommended one's
// batch and the range of its step.
[[nodiscard]] std::string others_text(const Report& report);

// A line for each number that was not given.
[[nodiscard]] std::string warnings_text(const std::vector<std::string>& assumed);

}  // namespace paro::tool
