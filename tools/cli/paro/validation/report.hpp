// `paro plan --validate` and `--fit`, as tables for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/paro/validation/default_mfu.hpp"
#include "cli/paro/validation/prediction.hpp"

namespace paro::tool {

// Of tables, what the planner says of them with these effects, and of their memory.
struct ValidationReport {
  const std::vector<PublishedTable>& tables;
  const std::vector<RowPrediction>& predictions;
  const std::vector<MemoryPrediction>& memory;
  const Effects& effects;
};
[[nodiscard]] std::string validation_text(const ValidationReport& report);
// Keys stay; new ones may be added.
[[nodiscard]] std::string validation_json(const ValidationReport& report);

[[nodiscard]] std::string fit_text(const Effects& effects, const Effects& in_use);
[[nodiscard]] std::string fit_json(const Effects& effects, const Effects& in_use);

}  // namespace paro::tool
