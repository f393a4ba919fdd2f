// Recommends a strategy. Pure.
//
// All 14 are worked out, and those that fit are put in order:
//
//   1. The step. Those within kStepTieShare of the shortest are as fast, since measured steps
//      differ by as much from run to run. Then the shortest of the rest and those that are as fast
//      as that, and so on.
//   2. Of those as fast, the step with links between nodes half as good: half the rate, twice the
//      latency. Those within kStepTieShare of the shortest come first, and so on. Traffic that is
//      hidden, and stays hidden, does not count.
//   3. Of those, memory, as far as it counts: up to kAmpleShare of a rank's memory, all needs are
//      one. Those within kMemoryTieShare of it of the one that needs least are equal.
//   4. Of those, what takes least to set up: effort().
//   5. What needs less memory, then the order of all_strategies().
//
// Where the micro-batch is open, a strategy's row has the largest one that fits, or, of smaller
// ones that are as fast as the fastest of all too, the largest that is equal by 3 to the one that
// needs least.
//
// So each set is held against its own best, not against its neighbours, and the order is total. The
// paper's T does not serve for it: every strategy whose communication is below the computation has
// the same T. docs/design/adr/0035-recommendations-that-hold.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/figures.hpp"
#include "planner/request.hpp"

namespace paro {

// What does not fit, would be faster than what does, and lacks least.
struct NearMiss {
  size_t row = 0;  // of the figures
  // Each makes it fit on its own, with what it then needs; at least one.
  std::vector<std::string> remedies;
};

// A strategy that fits, with one of the micro-batches that it may have: not always its row's.
struct Candidate {
  size_t row = 0;  // of the figures
  StrategyFigures figures;
};

// Of what fits: the shortest step; and, of those whose step is as long as that, the least memory,
// and what takes least to set up and has a name in users' frameworks.
struct Extremes {
  std::optional<Candidate> fastest;
  std::optional<Candidate> smallest;
  std::optional<Candidate> simplest;
};

struct Recommendation : Extremes {
  std::vector<StrategyFigures> figures;  // of all 14, in the order of all_strategies()
  std::vector<size_t> ranking;           // those of them that fit, the best first; may be empty
  std::optional<NearMiss> near_miss;
  bool of_one_size = false;  // groups of other sizes are compared with these
  // At most two sentences with the figures that decided: what is recommended and its bottleneck;
  // the runner-up and the fastest. Where nothing fits, by how much, and the near miss.
  std::vector<std::string> reasons;

  [[nodiscard]] std::string why() const;  // the reasons as one line
  [[nodiscard]] const StrategyFigures* recommended() const { return ranked(0); }
  [[nodiscard]] const StrategyFigures* runner_up() const { return ranked(1); }

 private:
  [[nodiscard]] const StrategyFigures* ranked(size_t at) const {
    return at < ranking.size() ? &figures[ranking[at]] : nullptr;
  }
};

[[nodiscard]] ho::Result<Recommendation> recommend(const PlannerRequest& request);

// In parts, where several requests have one order: the figures of all 14, with the largest
// micro-batches;
[[nodiscard]] ho::Result<std::vector<StrategyFigures>> all_figures(const PlannerRequest& request);
// of what requests have one after the other, what fits, the best first, of equals those of request
// `preferred` first; behind them the same strategies with other micro-batches than their rows;
[[nodiscard]] ho::Result<std::vector<Candidate>> candidates_of(
    std::span<const PlannerRequest> requests,
    const std::vector<StrategyFigures>& figures,
    size_t preferred);
// and what follows for one request from its own of them.
[[nodiscard]] ho::Result<Recommendation> recommendation_of(std::vector<StrategyFigures> figures,
                                                           const std::vector<Candidate>& candidates,
                                                           const PlannerRequest& request,
                                                           bool of_one_size = false);

// Of candidates in that order; may be of several requests.
[[nodiscard]] Extremes extremes_of(const std::vector<Candidate>& candidates);

// The same order of any rows of `figures`, the best first; of equals in all of this the first.
[[nodiscard]] std::vector<size_t> in_order(std::vector<size_t> rows,
                                           const std::vector<StrategyFigures>& figures);

// Which steps count as equal in the order, and what of a rank's memory (where it is not known, of
// the least that is needed).
inline constexpr double kStepTieShare = 0.03;
inline constexpr double kMemoryTieShare = 0.05;
// Of a rank's memory, up to what nothing is won by needing less: twice as much would fit.
inline constexpr double kAmpleShare = 0.5;

// Seconds of steps: whether the worse one counts as equal.
[[nodiscard]] constexpr bool as_fast(double better_s, double worse_s) {
  return worse_s <= better_s * (1 + kStepTieShare);
}
// Bytes that are needed, as far as they count.
[[nodiscard]] double counted_memory(const StrategyFigures& figures);
// Bytes that are needed beyond `better`'s and do not count.
[[nodiscard]] double memory_tie(const StrategyFigures& better);

// What it takes to set up.
enum class Effort : uint8_t {
  kWhole,      // nothing is split: DDP
  kSplit,      // a name of known_as() that needs no groups
  kGroups,     // one that does
  kNamesNone,  // none
};
[[nodiscard]] Effort effort(const Strategy& strategy);

}  // namespace paro
