#include "planner/group_sizes.hpp"

#include <algorithm>
#include <utility>

#include "planner/batch.hpp"

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

// Where nothing fits, the size with which least is missing.
size_t least_missing(const std::vector<SizedPlan>& plans) {
  const auto missing = [](const SizedPlan& plan) {
    const auto& figures = plan.recommendation.figures;
    return std::min_element(
               figures.begin(),
               figures.end(),
               [](const auto& a, const auto& b) { return a.missing_bytes < b.missing_bytes; })
        ->missing_bytes;
  };
  const auto least =
      std::min_element(plans.begin(), plans.end(), [&](const auto& a, const auto& b) {
        return missing(a) < missing(b);
      });
  return static_cast<size_t>(least - plans.begin());
}

// Of equals the size of the request itself: a node's ranks.
size_t best_of(const std::vector<SizedPlan>& plans, uint32_t own_size) {
  std::vector<StrategyFigures> best;
  std::vector<size_t> rows;
  std::vector<size_t> plan_of_row;
  for (size_t at = 0; at < plans.size(); ++at) {
    if (const StrategyFigures* const figures = plans[at].recommendation.recommended()) {
      rows.push_back(best.size());
      best.push_back(*figures);
      plan_of_row.push_back(at);
    }
  }
  std::stable_partition(rows.begin(), rows.end(), [&](size_t row) {
    return plans[plan_of_row[row]].request.world.group_size == own_size;
  });
  return rows.empty() ? least_missing(plans) : plan_of_row[in_order(rows, best).front()];
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
  SizedPlans result;
  for (const uint32_t size : sizes_of(request, list)) {
    HORING_ASSIGN(PlannerRequest sized, with_group_size(request, size));
    HORING_ASSIGN(Recommendation recommendation, recommend(sized));
    result.plans.push_back({std::move(sized), std::move(recommendation)});
  }
  result.chosen = best_of(result.plans, request.world.group_size);
  return result;
}

double spine_bytes(const StrategyFigures& figures, const PlannerRequest& request) {
  const PlannerRequest chosen = with_batch(figures.strategy, request);
  return outermost_bytes(figures.strategy, chosen.model, chosen.bytes, chosen.world, chosen.links)
      .communication(chosen.micro_batches);
}

}  // namespace paro
