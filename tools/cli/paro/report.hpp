// A recommendation as a table for people and as JSON for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/paro/plan_options.hpp"
#include "planner/planner.hpp"

namespace paro::tool {

struct Report {
  PlanOptions options;  // complete
  Recommendation recommendation;
  std::vector<std::string> notes;  // on the source of the figures
};

// "ZeRO-3, FSDP"; may be empty.
[[nodiscard]] std::string known_as_text(const Strategy& strategy);

[[nodiscard]] std::string table_text(const Report& report);
// Bytes and seconds. Keys stay; new ones may be added.
[[nodiscard]] std::string json_text(const Report& report);

}  // namespace paro::tool
