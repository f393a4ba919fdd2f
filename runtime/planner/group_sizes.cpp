#include "planner/group_sizes.hpp"

#include <spdlog/fmt/fmt.h>

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

ho::Result<PlannerRequest> with_listed_size(const PlannerRequest& request,
                                            uint32_t size,
                                            const GroupSizeList& list) {
  auto sized = with_group_size(request, size);
  if (sized.ok()) {
    return sized;
  }
  const auto near = group_sizes_near(levels_of(request.world, request.links), size);
  return ho::invalid(fmt::format("{} {}: {}; takes {}",
                                 list.named("group-sizes"),
                                 size,
                                 sized.status().message(),
                                 fmt::join(near, " or ")));
}

size_t size_of(size_t row) {
  return row / kStrategyCount;
}

// Where nothing fits, the size with which least is missing.
size_t least_missing(const std::vector<StrategyFigures>& figures) {
  const auto least =
      std::min_element(figures.begin(), figures.end(), [](const auto& a, const auto& b) {
        return a.missing_bytes < b.missing_bytes;
      });
  return size_of(static_cast<size_t>(least - figures.begin()));
}

// Those of one size, as rows of its own figures.
std::vector<Candidate> of_size(size_t size, const std::vector<Candidate>& candidates) {
  std::vector<Candidate> own;
  for (const Candidate& each : candidates) {
    if (size_of(each.row) == size) {
      own.push_back({each.row % kStrategyCount, each.figures});
    }
  }
  return own;
}

void set_extremes(const Extremes& all, SizedPlans& plans) {
  const auto sized = [](const std::optional<Candidate>& each) {
    return each ? std::optional(SizedRow{size_of(each->row), each->figures}) : std::nullopt;
  };
  plans.fastest = sized(all.fastest);
  plans.smallest = sized(all.smallest);
  plans.simplest = sized(all.simplest);
}

// Beside the fastest where another size has it, else beside the best of the others in the order.
void set_reason(const std::vector<Candidate>& candidates, SizedPlans& plans) {
  const auto is_other = [&](const Candidate& each) { return size_of(each.row) != plans.chosen; };
  const auto next = std::find_if(candidates.begin(), candidates.end(), is_other);
  if (next == candidates.end()) {
    return;
  }
  const Candidate fastest = *extremes_of(candidates).fastest;
  const Candidate& other = is_other(fastest) ? fastest : *next;
  SizedPlan& chosen = plans.plans[plans.chosen];
  add_size_reason(candidates.front().figures,
                  chosen.request.world.group_size,
                  other.figures,
                  plans.plans[size_of(other.row)].request.world.group_size,
                  chosen.recommendation.reasons.back());
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
  std::vector<PlannerRequest> requests;
  std::vector<StrategyFigures> figures;  // of all sizes, one after the other
  size_t own = 0;                        // the request's own size, a node's ranks, if listed
  for (const uint32_t size : sizes_of(request, list)) {
    own += size < request.world.group_size ? 1 : 0;
    HORING_ASSIGN(PlannerRequest sized, with_listed_size(request, size, list));
    HORING_ASSIGN(const std::vector<StrategyFigures> of_sized, all_figures(sized));
    requests.push_back(std::move(sized));
    figures.insert(figures.end(), of_sized.begin(), of_sized.end());
  }
  HORING_ASSIGN(const std::vector<Candidate> candidates, candidates_of(requests, figures, own));
  SizedPlans result;
  result.chosen = candidates.empty() ? least_missing(figures) : size_of(candidates.front().row);
  for (size_t size = 0; size < requests.size(); ++size) {
    const auto first = figures.begin() + static_cast<std::ptrdiff_t>(size * kStrategyCount);
    HORING_ASSIGN(Recommendation recommendation,
                  recommendation_of({first, first + kStrategyCount},
                                    of_size(size, candidates),
                                    requests[size],
                                    requests.size() > 1));
    result.plans.push_back({std::move(requests[size]), std::move(recommendation)});
  }
  set_extremes(extremes_of(candidates), result);
  set_reason(candidates, result);
  return result;
}

double spine_bytes(const StrategyFigures& figures, const PlannerRequest& request) {
  const PlannerRequest chosen = with_batch_of(figures, request);
  const double sent = level_bytes(figures.strategy,
                                  step_volumes(chosen.model, chosen.bytes),
                                  chosen.world,
                                  chosen.links,
                                  LevelBytes::Over::kOutermost)
                          .communication(chosen.micro_batches);
  // Above a node all of its ranks send.
  return outermost_level(levels_of(chosen.world, chosen.links)) > 0 ? chosen.tensor_ranks * sent
                                                                    : sent;
}

}  // namespace paro
