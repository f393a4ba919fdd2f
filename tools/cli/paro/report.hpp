// A recommendation for people, and as a table for other programs. Pure.
#pragma once

#include <string>

#include "planner/text/answer.hpp"
#include "planner/text/sweep.hpp"

namespace paro::tool {

// Speed, memory and exposed communication of each strategy, the best first, and which one to take.
[[nodiscard]] std::string summary_text(const Report& report);
// The same with every figure, in the order of all_strategies().
[[nodiscard]] std::string table_text(const Report& report);
// A row for each value.
[[nodiscard]] std::string sweep_text(const Sweep& sweep);

// Lines of fields with a comma between each two; bytes and seconds. Of a report every figure.
[[nodiscard]] std::string csv_text(const Report& report);
[[nodiscard]] std::string csv_text(const Sweep& sweep);

}  // namespace paro::tool
