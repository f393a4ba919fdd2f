// A plan for each of several values of one option. Pure, but for reading the files that options
// name.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/text/answer.hpp"

namespace paro {

struct SweepRow {
  std::string value;  // with its unit: "200Gbit"
  Report report;
  // What is recommended; where nothing fits, what lacks least.
  [[nodiscard]] const StrategyFigures& best() const;
};

// Of a sweep over `inter`.
struct LeastRate {
  double bytes_per_s = 0;  // of a NIC: the least with which a step is kKeptSpeed as fast as
  std::string fastest;     // with this value, the fastest of them
};
inline constexpr double kKeptSpeed = 0.95;

// A value with which no plan can be.
struct ImpossibleValue {
  std::string value;
  std::string why;
};

struct Sweep {
  std::string option;          // "inter"
  std::vector<SweepRow> rows;  // as the values were given; at least one
  std::vector<ImpossibleValue> impossible;
  std::optional<LeastRate> least;
};

// Called before every plan, with how many there have been.
using SweepProgress = std::function<void(size_t plans)>;

// `texts.sweep` is "inter=100,200,400": an option that takes a number, and its values; a rate
// without a unit is in Gbit/s. What `texts` has of that option does not count. Errors name the
// option and the value: of one that is no number, or of the first where none of them is possible.
[[nodiscard]] ho::Result<Sweep> sweep_of(const PlanTexts& texts, const SweepProgress& progress);

}  // namespace paro
