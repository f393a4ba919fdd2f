#include "planner/group_sizes.hpp"

#include <algorithm>
#include <utility>

#include "planner/batch.hpp"
#include "planner/reason.hpp"

namespace paro {
namespace {

std::vector<uint32_t> sizes_of(const PlannerRequest& request, const GroupSizeList& list) {
  std::vector<uint32_t> sizes = list.sizes;
  if (list.all) {
    for (const uint64_t size : group_sizes(levels_of(request.world, request.links))) {
      sizes.push_back(static_cast<uint32_t>(size));
    }
  }
  if (sizes.empty()) {
    sizes.push_back(request.world.group_size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

struct Sized {
  PlannerRequest request;
  std::vector<StrategyFigures> figures;
  std::vector<size_t> ranking;
};

// Where nothing fits, the size with which least is missing.
size_t least_missing(const std::vector<Sized>& all) {
  const auto missing = [](const Sized& sized) {
    return std::min_element(
               sized.figures.begin(),
               sized.figures.end(),
               [](const auto& a, const auto& b) { return a.missing_bytes < b.missing_bytes; })
        ->missing_bytes;
  };
  const auto least = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return missing(a) < missing(b);
  });
  return static_cast<size_t>(least - all.begin());
}

struct Ranked {
  std::vector<StrategyFigures> figures;  // of all sizes, one after the other
  std::vector<size_t> order;             // of those that fit
  size_t chosen = 0;                     // the size that has the best of all
};

size_t size_of(size_t row) {
  return row / kStrategyCount;
}

// Ranks each size's strategies in the one order of all, of equals those with the request's own
// size, a node's ranks, first.
Ranked rank(std::vector<Sized>& all, uint32_t own_size) {
  std::vector<StrategyFigures> figures;
  std::vector<size_t> fitting;
  for (const Sized& sized : all) {
    for (const StrategyFigures& row : sized.figures) {
      if (row.fits()) {
        fitting.push_back(figures.size());
      }
      figures.push_back(row);
    }
  }
  std::stable_partition(fitting.begin(), fitting.end(), [&](size_t row) {
    return all[size_of(row)].request.world.group_size == own_size;
  });
  if (fitting.empty()) {
    return {std::move(figures), {}, least_missing(all)};
  }
  std::vector<size_t> order = in_order(std::move(fitting), figures);
  for (const size_t row : order) {
    all[size_of(row)].ranking.push_back(row % kStrategyCount);
  }
  const size_t chosen = size_of(order.front());
  return {std::move(figures), std::move(order), chosen};
}

void set_extremes(const Ranked& ranked, SizedPlans& plans) {
  const Extremes all = extremes_of(ranked.order, ranked.figures);
  const auto sized = [](const std::optional<size_t>& row) {
    return row ? std::optional(SizedRow{size_of(*row), *row % kStrategyCount}) : std::nullopt;
  };
  plans.fastest = sized(all.fastest);
  plans.smallest = sized(all.smallest);
  plans.simplest = sized(all.simplest);
}

// Beside the fastest where another size has it, else beside the best of the others in the order.
void set_reason(const Ranked& ranked, SizedPlans& plans) {
  const auto is_other = [&](size_t row) { return size_of(row) != plans.chosen; };
  const auto next = std::find_if(ranked.order.begin(), ranked.order.end(), is_other);
  if (next == ranked.order.end()) {
    return;
  }
  const size_t fastest = *extremes_of(ranked.order, ranked.figures).fastest;
  const size_t other = is_other(fastest) ? fastest : *next;
  SizedPlan& chosen = plans.plans[plans.chosen];
  plans.why = size_reason(ranked.figures[ranked.order.front()],
                          chosen.request.world.group_size,
                          ranked.figures[other],
                          plans.plans[size_of(other)].request.world.group_size);
  chosen.recommendation.reasons.push_back(plans.why);
  chosen.recommendation.why += " " + plans.why;
}

}  // namespace

ho::Result<PlannerRequest> with_group_size(const PlannerRequest& request, uint32_t group_size) {
  if (group_size == request.world.group_size) {
    return request;
  }
  PlannerRequest other = request;
  Links& links = other.links;
  if (links.levels.empty()) {
    links.levels = levels_of(request.world, links);
    links.levels[0].start_s = links.intra_call_s;
    links.levels[1].start_s = std::max(links.inter_call_s, links.world_call_s);
    if (request.world.group_count == 1) {
      links.levels.pop_back();
    }
  }
  HORING_TRY(inside_groups(links.levels, group_size).status());
  other.world = {request.world.ranks() / group_size, group_size};
  return other;
}

ho::Result<SizedPlans> recommend_sizes(const PlannerRequest& request, const GroupSizeList& list) {
  HORING_TRY(check(request));
  std::vector<Sized> all;
  for (const uint32_t size : sizes_of(request, list)) {
    HORING_ASSIGN(PlannerRequest sized, with_group_size(request, size));
    HORING_ASSIGN(std::vector<StrategyFigures> figures, all_figures(sized));
    all.push_back({std::move(sized), std::move(figures), {}});
  }
  SizedPlans result;
  const Ranked ranked = rank(all, request.world.group_size);
  result.chosen = ranked.chosen;
  for (Sized& sized : all) {
    HORING_ASSIGN(
        Recommendation recommendation,
        recommendation_of(std::move(sized.figures), std::move(sized.ranking), sized.request));
    result.plans.push_back({std::move(sized.request), std::move(recommendation)});
  }
  set_extremes(ranked, result);
  set_reason(ranked, result);
  return result;
}

double spine_bytes(const StrategyFigures& figures, const PlannerRequest& request) {
  const PlannerRequest chosen = with_batch(figures.strategy, request);
  return level_bytes(figures.strategy,
                     step_volumes(chosen.model, chosen.bytes),
                     chosen.world,
                     chosen.links,
                     LevelBytes::Over::kOutermost)
      .communication(chosen.micro_batches);
}

}  // namespace paro
