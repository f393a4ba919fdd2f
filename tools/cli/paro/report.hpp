// A recommendation as a table for people. Pure.
#pragma once

#include <string>

#include "planner/text/answer.hpp"

namespace paro::tool {

[[nodiscard]] std::string table_text(const Report& report);

}  // namespace paro::tool
