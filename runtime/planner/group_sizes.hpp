// Which ranks are a group: scope I of the strategies, as the runtime forms it from neighbours in
// the ranks' order. Pure.
//
// A group is as large as any size that tiles the cluster's levels: part of a node, a node, some
// nodes of a pod, a pod. Every strategy is worked out with every size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "planner/planner.hpp"
#include "planner/request.hpp"

namespace paro {

// What is asked for: these, or all that tile. Neither: the request's own.
struct GroupSizeList {
  bool all = false;
  std::vector<uint32_t> sizes;
  ho::OptionNames named = {};  // in messages
};

// The request with groups of another size. Its links stay: two rates become two levels.
[[nodiscard]] ho::Result<PlannerRequest> with_group_size(const PlannerRequest& request,
                                                         uint32_t group_size);

struct SizedPlan {
  PlannerRequest request;  // of that size
  Recommendation recommendation;
};

// A strategy with groups of one of several sizes.
struct SizedRow {
  size_t plan = 0;
  StrategyFigures figures;
};

struct SizedPlans {
  std::vector<SizedPlan> plans;  // by ascending size; at least one
  // Whose recommendation is the best. The rankings are parts of one order of all sizes' strategies.
  size_t chosen = 0;
  // Extremes of all sizes.
  std::optional<SizedRow> fastest;
  std::optional<SizedRow> smallest;
  std::optional<SizedRow> simplest;
};

[[nodiscard]] ho::Result<SizedPlans> recommend_sizes(const PlannerRequest& request,
                                                     const GroupSizeList& list);

// Bytes of a step that each unit which the outermost level joins sends to the others: over the
// spine.
[[nodiscard]] double spine_bytes(const StrategyFigures& figures, const PlannerRequest& request);

}  // namespace paro
