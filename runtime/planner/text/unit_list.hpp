// The units of a model as a list in JSON: [{"parameters": 1e6, "count": 32}, ..]. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "cost/memory.hpp"
#include "planner/request.hpp"
#include "planner/text/plan_options.hpp"
#include "planner/training.hpp"

namespace paro {

inline constexpr std::string_view kUnitKeys =
    "parameters, trained, element_bytes, count, gathered_bytes, reduced_bytes, updated_bytes, "
    "reduced_between_bytes, updated_between_bytes, stays_gathered";

struct UnitList {
  std::vector<UnitSize> units;        // in the order of the forward pass; at least one
  std::vector<double> element_bytes;  // of each; empty where none has any
  [[nodiscard]] ModelSize size() const;
  // Of a mean parameter, as the elements of the units are; nothing: not known.
  [[nodiscard]] std::optional<BytesPerParameter> bytes(OptimizerKind optimizer) const;
};

// `name` stands for the list in errors.
[[nodiscard]] ho::Result<UnitList> parse_units(std::string_view text, std::string_view name);

// Of a model of which the units are known, and nothing else.
[[nodiscard]] ho::Status take_units(const PlanTexts& texts, PlanOptions& options);

}  // namespace paro
