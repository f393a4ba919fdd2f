// `paro plan --validate` and `--fit`, as tables for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/paro/validation/prediction.hpp"

namespace paro::tool {

[[nodiscard]] std::string validation_text(const std::vector<PublishedTable>& tables,
                                          const std::vector<RowPrediction>& predictions,
                                          const Effects& effects);
// Keys stay; new ones may be added.
[[nodiscard]] std::string validation_json(const std::vector<PublishedTable>& tables,
                                          const std::vector<RowPrediction>& predictions,
                                          const Effects& effects);

[[nodiscard]] std::string fit_text(const Effects& effects, const Effects& in_use);
[[nodiscard]] std::string fit_json(const Effects& effects, const Effects& in_use);

}  // namespace paro::tool
