#include "planner/planner.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "planner/reason.hpp"

namespace paro {
namespace {

using Key = double (*)(const StrategyFigures&);

constexpr std::array<Key, 3> kKeys{
    [](const StrategyFigures& figures) { return figures.time.step_s; },
    [](const StrategyFigures& figures) { return figures.time.communication_s; },
    [](const StrategyFigures& figures) { return figures.memory.total(); },
};

// Rows by their key `key`; those that it does not tell from the first of them by the next key.
void put_in_order(std::span<size_t> rows, const std::vector<StrategyFigures>& figures, size_t key) {
  if (rows.size() < 2 || key == kKeys.size()) {
    return;
  }
  const auto value = [&](size_t row) { return kKeys.at(key)(figures[row]); };
  std::stable_sort(
      rows.begin(), rows.end(), [&](size_t a, size_t b) { return value(a) < value(b); });
  size_t begin = 0;
  while (begin < rows.size()) {
    const double limit = value(rows[begin]) * (1 + kTieShare);
    size_t end = begin + 1;
    while (end < rows.size() && value(rows[end]) <= limit) {
      ++end;
    }
    put_in_order(rows.subspan(begin, end - begin), figures, key + 1);
    begin = end;
  }
}

}  // namespace

ho::Result<Recommendation> recommend(const PlanRequest& request) {
  HORING_TRY(check(request));
  Recommendation result;
  for (const Strategy& strategy : all_strategies()) {
    HORING_ASSIGN(const StrategyFigures figures, figures_of(strategy, request));
    if (figures.fits()) {
      result.ranking.push_back(result.figures.size());
    }
    result.figures.push_back(figures);
  }
  put_in_order(result.ranking, result.figures, 0);
  result.why = reason(result, request);
  return result;
}

}  // namespace paro
