#include "planner/planner.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
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
  return static_cast<double>(effort(figures.strategy));
}

constexpr std::array kKeys{
    Key{step, [](const StrategyFigures& figures) { return step(figures) * (1 + kStepTieShare); }},
    Key{half_links_step,
        [](const StrategyFigures& figures) {
          return half_links_step(figures) * (1 + kStepTieShare);
        }},
    Key{counted_memory,
        [](const StrategyFigures& figures) {
          return counted_memory(figures) + memory_tie(figures);
        }},
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

size_t request_of(const Candidate& candidate) {
  return candidate.row / kStrategyCount;
}

// A strategy that fits with each micro-batch with which it is as fast as the fastest, the largest
// first, which is there in any case. A smaller one takes no less time. Where memory is not known
// there is no reason to want one.
ho::Result<std::vector<Candidate>> with_smaller_batches(const Candidate& largest,
                                                        const PlannerRequest& request,
                                                        double fastest_s) {
  std::vector<Candidate> all{largest};
  StrategyFigures figures = largest.figures;
  while (request.sequences > 0 && request.memory_bytes > 0) {
    HORING_ASSIGN(const auto smaller, with_smaller_batch(figures, request));
    if (!smaller || !as_fast(fastest_s, step(*smaller))) {
      break;
    }
    figures = *smaller;
    if (figures.fits()) {  // sums of several may be wider
      all.push_back({largest.row, figures});
    }
  }
  return all;
}

// Of one strategy's, the first that needs as little as the one that needs least: beside it a larger
// micro-batch saves launches, and kernels run better.
size_t best_of(const std::vector<Candidate>& batches) {
  const auto counted = [](const Candidate& each) { return counted_memory(each.figures); };
  const auto least =
      std::min_element(batches.begin(), batches.end(), [&](const Candidate& a, const Candidate& b) {
        return counted(a) < counted(b);
      });
  const double limit = counted(*least) + memory_tie(least->figures);
  const auto best = std::find_if(batches.begin(), batches.end(), [&](const Candidate& each) {
    return counted(each) <= limit;
  });
  return static_cast<size_t>(best - batches.begin());
}

std::vector<Candidate> in_order(const std::vector<Candidate>& candidates) {
  std::vector<StrategyFigures> figures(candidates.size());
  std::transform(candidates.begin(), candidates.end(), figures.begin(), [](const Candidate& each) {
    return each.figures;
  });
  std::vector<size_t> rows(candidates.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::vector<Candidate> ordered;
  for (const size_t row : in_order(std::move(rows), figures)) {
    ordered.push_back(candidates[row]);
  }
  return ordered;
}

}  // namespace

std::string Recommendation::why() const {
  return fmt::format("{}", fmt::join(reasons, " "));
}

Extremes extremes_of(const std::vector<Candidate>& candidates) {
  Extremes all;
  if (candidates.empty()) {
    return all;
  }
  const auto least = [](const std::vector<Candidate>& of, double (*value)(const StrategyFigures&)) {
    return *std::min_element(of.begin(), of.end(), [&](const Candidate& a, const Candidate& b) {
      return value(a.figures) < value(b.figures);
    });
  };
  constexpr double kRounding = 1e-9;
  const double shortest_s = step(least(candidates, step).figures);
  std::vector<Candidate> shortest_ones;
  for (const Candidate& each : candidates) {
    if (step(each.figures) <= shortest_s * (1 + kRounding)) {
      shortest_ones.push_back(each);
    }
  }
  all.fastest = least(shortest_ones, effort_of);
  std::vector<Candidate> as_fast_ones;  // in the candidates' order
  for (const Candidate& each : candidates) {
    if (as_fast(step(all.fastest->figures), step(each.figures))) {
      as_fast_ones.push_back(each);
    }
  }
  all.smallest = least(as_fast_ones, memory);
  const Candidate simplest = least(as_fast_ones, effort_of);
  if (!known_as(simplest.figures.strategy).empty()) {
    all.simplest = simplest;
  }
  return all;
}

double counted_memory(const StrategyFigures& figures) {
  return std::max(memory(figures), kAmpleShare * figures.memory_bytes);
}

double memory_tie(const StrategyFigures& better) {
  return kMemoryTieShare * (better.memory_bytes > 0 ? better.memory_bytes : better.memory.total());
}

Effort effort(const Strategy& strategy) {
  if (known_as(strategy).empty()) {
    return Effort::kNamesNone;
  }
  const std::array scopes{strategy.parameters, strategy.gradients, strategy.optimizer};
  const auto any = [&](Scope scope) {
    return std::find(scopes.begin(), scopes.end(), scope) != scopes.end();
  };
  if (any(Scope::kGroup)) {
    return Effort::kGroups;
  }
  return any(Scope::kWorld) ? Effort::kSplit : Effort::kWhole;
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

ho::Result<std::vector<Candidate>> candidates_of(std::span<const PlannerRequest> requests,
                                                 const std::vector<StrategyFigures>& figures,
                                                 size_t preferred) {
  std::vector<Candidate> fitting;
  double fastest_s = std::numeric_limits<double>::infinity();
  for (size_t row = 0; row < figures.size(); ++row) {
    if (figures[row].fits()) {
      fitting.push_back({row, figures[row]});
      fastest_s = std::min(fastest_s, step(figures[row]));
    }
  }
  std::stable_partition(fitting.begin(), fitting.end(), [&](const Candidate& each) {
    return request_of(each) == preferred;
  });
  // What is as fast stays so beside the fastest of all, whose row may have a smaller micro-batch.
  std::vector<Candidate> as_fast_ones;
  std::vector<Candidate> slower;
  std::vector<Candidate> others;  // with other micro-batches than their rows
  for (const Candidate& each : fitting) {
    HORING_ASSIGN(std::vector<Candidate> batches,
                  with_smaller_batches(each, requests[request_of(each)], fastest_s));
    const size_t best = best_of(batches);
    (as_fast(fastest_s, step(each.figures)) ? as_fast_ones : slower).push_back(batches[best]);
    batches.erase(batches.begin() + static_cast<std::ptrdiff_t>(best));
    others.insert(others.end(), batches.begin(), batches.end());
  }
  std::vector<Candidate> ordered = in_order(as_fast_ones);
  for (const auto& more : {in_order(slower), others}) {
    ordered.insert(ordered.end(), more.begin(), more.end());
  }
  return ordered;
}

ho::Result<Recommendation> recommendation_of(std::vector<StrategyFigures> figures,
                                             const std::vector<Candidate>& candidates,
                                             const PlannerRequest& request,
                                             bool of_one_size) {
  Recommendation result;
  result.of_one_size = of_one_size;
  result.figures = std::move(figures);
  for (const Candidate& each : candidates) {  // a row is the first of its candidates
    std::vector<size_t>& ranking = result.ranking;
    if (std::find(ranking.begin(), ranking.end(), each.row) == ranking.end()) {
      ranking.push_back(each.row);
      result.figures[each.row] = each.figures;
    }
  }
  static_cast<Extremes&>(result) = extremes_of(candidates);
  HORING_ASSIGN(result.near_miss, near_miss_of(result, request));
  result.reasons = reasons(result, request);
  return result;
}

ho::Result<Recommendation> recommend(const PlannerRequest& request) {
  HORING_ASSIGN(std::vector<StrategyFigures> figures, all_figures(request));
  HORING_ASSIGN(const std::vector<Candidate> candidates, candidates_of({&request, 1}, figures, 0));
  return recommendation_of(std::move(figures), candidates, request);
}

}  // namespace paro
