#include "planner/planner.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "planner/batch.hpp"
#include "planner/reason.hpp"

namespace paro {
namespace {

struct Key {
  double (*value)(const StrategyFigures&);
  double tie_share;
};

constexpr std::array kKeys{
    Key{[](const StrategyFigures& figures) { return figures.time.step_s; }, kStepTieShare},
    Key{[](const StrategyFigures& figures) { return figures.time.communication_s; }, kTieShare},
    Key{[](const StrategyFigures& figures) { return figures.memory.total(); }, kTieShare},
};

// Rows by their key `key`; those that it does not distinguish from the first of them by the next
// key.
void put_in_order(std::span<size_t> rows, const std::vector<StrategyFigures>& figures, size_t key) {
  if (rows.size() < 2 || key == kKeys.size()) {
    return;
  }
  const auto value = [&](size_t row) { return kKeys.at(key).value(figures[row]); };
  std::stable_sort(
      rows.begin(), rows.end(), [&](size_t a, size_t b) { return value(a) < value(b); });
  size_t begin = 0;
  while (begin < rows.size()) {
    const double limit = value(rows[begin]) * (1 + kKeys.at(key).tie_share);
    size_t end = begin + 1;
    while (end < rows.size() && value(rows[end]) <= limit) {
      ++end;
    }
    put_in_order(rows.subspan(begin, end - begin), figures, key + 1);
    begin = end;
  }
}

}  // namespace

std::vector<size_t> in_order(std::vector<size_t> rows,
                             const std::vector<StrategyFigures>& figures) {
  put_in_order(rows, figures, 0);
  return rows;
}

ho::Result<Recommendation> recommend(const PlannerRequest& request) {
  HORING_TRY(check(request));
  Recommendation result;
  for (const Strategy& strategy : all_strategies()) {
    HORING_ASSIGN(const StrategyFigures figures,
                  figures_of(strategy, with_batch(strategy, request)));
    if (figures.fits()) {
      result.ranking.push_back(result.figures.size());
    }
    result.figures.push_back(figures);
  }
  result.ranking = in_order(std::move(result.ranking), result.figures);
  result.why = reason(result, request);
  return result;
}

}  // namespace paro
