// What the planner says of a published row from a GPT's shape and a GPU's name, as `paro plan`
// would: computation by the GPU's default MFU, nothing calibrated. And of published memory. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "cli/paro/validation/published.hpp"
#include "planner/effects.hpp"

namespace paro::tool {

struct DefaultMfuStep {
  double tokens_per_s = 0;  // of a GPU
  double alone = 0;  // the same of computation, as if nothing were communicated or waited for
};
// Of a row that has a shape.
[[nodiscard]] ho::Result<DefaultMfuStep> default_mfu_step(const PublishedTable& table,
                                                          const PublishedRow& row,
                                                          const Effects& effects);

struct MemoryPrediction {
  const PublishedTable* table = nullptr;
  std::string_view model;
  std::string_view what;  // "states"
  double published_gib = 0;
  double planned_gib = 0;
  [[nodiscard]] double error() const { return planned_gib / published_gib - 1; }
};
// Of all layers of a stage and of nothing else, as the tables have it.
[[nodiscard]] ho::Result<std::vector<MemoryPrediction>> predict_memory(
    const std::vector<PublishedTable>& tables);

}  // namespace paro::tool
