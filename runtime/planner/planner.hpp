// Recommends a strategy. Pure.
//
// All 14 are worked out, those that fit are put in order: by the step's critical path; where two
// differ by less than measured steps do from run to run, by seconds of communication, which leave
// more room for links that turn out slower; then by memory. The paper's T does not serve for that:
// every strategy whose communication is below the computation has the same T.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/figures.hpp"
#include "planner/request.hpp"

namespace paro {

// What does not fit, would be faster than what does, and lacks least.
struct NearMiss {
  size_t row = 0;  // of the figures
  // Each makes it fit on its own, with what it then needs; may be empty.
  std::vector<std::string> remedies;
};

struct Recommendation {
  std::vector<StrategyFigures> figures;  // of all 14, in the order of all_strategies()
  std::vector<size_t> ranking;           // those of them that fit, the best first; may be empty
  // Rows of the figures, of those that fit: the shortest step; and, of those whose step is as
  // long as that, the least memory, and what users' frameworks have a name for and need no groups
  // for, or a name at least.
  std::optional<size_t> fastest;
  std::optional<size_t> smallest;
  std::optional<size_t> simplest;
  std::optional<NearMiss> near_miss;
  // Sentences with the figures that decided; where nothing fits, by how much, and what would help.
  // By lines: what is recommended and its bottleneck, the runner-up, the near miss.
  std::vector<std::string> reasons;
  std::string why;  // the reasons as one line

  [[nodiscard]] const StrategyFigures* recommended() const { return ranked(0); }
  [[nodiscard]] const StrategyFigures* runner_up() const { return ranked(1); }

 private:
  [[nodiscard]] const StrategyFigures* ranked(size_t at) const {
    return at < ranking.size() ? &figures[ranking[at]] : nullptr;
  }
};

[[nodiscard]] ho::Result<Recommendation> recommend(const PlannerRequest& request);

// The same order of any rows of `figures`, the best first.
[[nodiscard]] std::vector<size_t> in_order(std::vector<size_t> rows,
                                           const std::vector<StrategyFigures>& figures);

// Which steps count as equal in the order, and which other figures.
inline constexpr double kStepTieShare = 0.03;
inline constexpr double kTieShare = 1e-3;

}  // namespace paro
