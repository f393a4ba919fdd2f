#include "planner/planner.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "planner/batch.hpp"
#include "planner/near_miss.hpp"
#include "planner/reason.hpp"

namespace paro {
namespace {

struct Key {
  double (*value)(const StrategyFigures&);
  // Up to what others equal it.
  double (*limit)(const StrategyFigures&);
};

double step(const StrategyFigures& figures) {
  return figures.time.step_s;
}

double half_links_step(const StrategyFigures& figures) {
  return figures.time.half_links_s;
}

double memory(const StrategyFigures& figures) {
  return figures.memory.total();
}

double effort_of(const StrategyFigures& figures) {
  return effort(figures.strategy);
}

constexpr std::array kKeys{
    Key{step, [](const StrategyFigures& figures) { return step(figures) * (1 + kStepTieShare); }},
    Key{half_links_step,
        [](const StrategyFigures& figures) {
          return half_links_step(figures) * (1 + kStepTieShare);
        }},
    Key{memory,
        [](const StrategyFigures& figures) { return memory(figures) + memory_tie(figures); }},
    Key{effort_of, effort_of},
    Key{memory, memory},
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
    const double limit = kKeys.at(key).limit(figures[rows[begin]]);
    size_t end = begin + 1;
    while (end < rows.size() && value(rows[end]) <= limit) {
      ++end;
    }
    put_in_order(rows.subspan(begin, end - begin), figures, key + 1);
    begin = end;
  }
}

}  // namespace

Extremes extremes_of(const std::vector<size_t>& ranking,
                     const std::vector<StrategyFigures>& figures) {
  Extremes all;
  if (ranking.empty()) {
    return all;
  }
  const auto least = [&](const std::vector<size_t>& rows, double (*value)(const StrategyFigures&)) {
    return *std::min_element(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      return value(figures[a]) < value(figures[b]);
    });
  };
  all.fastest = least(ranking, step);
  std::vector<size_t> as_fast_rows;  // in the ranking's order
  for (const size_t row : ranking) {
    if (as_fast(step(figures[*all.fastest]), step(figures[row]))) {
      as_fast_rows.push_back(row);
    }
  }
  all.smallest = least(as_fast_rows, memory);
  const size_t simplest = least(as_fast_rows, effort_of);
  if (!known_as(figures[simplest].strategy).empty()) {
    all.simplest = simplest;
  }
  return all;
}

double memory_tie(const StrategyFigures& better) {
  return kMemoryTieShare * (better.memory_bytes > 0 ? better.memory_bytes : better.memory.total());
}

int effort(const Strategy& strategy) {
  if (known_as(strategy).empty()) {
    return 2;
  }
  const bool groups = strategy.parameters == Scope::kGroup || strategy.gradients == Scope::kGroup ||
                      strategy.optimizer == Scope::kGroup;
  return groups ? 1 : 0;
}

std::vector<size_t> in_order(std::vector<size_t> rows,
                             const std::vector<StrategyFigures>& figures) {
  put_in_order(rows, figures, 0);
  return rows;
}

ho::Result<std::vector<StrategyFigures>> all_figures(const PlannerRequest& request) {
  HORING_TRY(check(request));
  std::vector<StrategyFigures> all;
  for (const Strategy& strategy : all_strategies()) {
    HORING_ASSIGN(const StrategyFigures figures,
                  figures_of(strategy, with_batch(strategy, request)));
    all.push_back(figures);
  }
  return all;
}

ho::Result<Recommendation> recommendation_of(std::vector<StrategyFigures> figures,
                                             std::vector<size_t> ranking,
                                             const PlannerRequest& request) {
  Recommendation result;
  result.figures = std::move(figures);
  result.ranking = std::move(ranking);
  static_cast<Extremes&>(result) = extremes_of(result.ranking, result.figures);
  HORING_ASSIGN(result.near_miss, near_miss_of(result, request));
  result.reasons = reasons(result, request);
  for (const std::string& reason : result.reasons) {
    result.why += (result.why.empty() ? "" : " ") + reason;
  }
  return result;
}

ho::Result<Recommendation> recommend(const PlannerRequest& request) {
  HORING_ASSIGN(std::vector<StrategyFigures> figures, all_figures(request));
  std::vector<size_t> fitting;
  for (size_t row = 0; row < figures.size(); ++row) {
    if (figures[row].fits()) {
      fitting.push_back(row);
    }
  }
  std::vector<size_t> ranking = in_order(std::move(fitting), figures);
  return recommendation_of(std::move(figures), std::move(ranking), request);
}

}  // namespace paro
