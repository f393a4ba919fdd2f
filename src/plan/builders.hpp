// The builders behind build_plan(), one per algorithm. Each fills the shared part and the ops of
// `rank`, at a cost that grows with that rank's ops and the number of chunks, not with all ranks'
// ops. The request is valid and the world has at least two ranks.
#pragma once

#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

[[nodiscard]] BuiltPlan build_ring(const GroupMap& map,
                                   const PlanRequest& request,
                                   GlobalRank rank);
[[nodiscard]] BuiltPlan build_multi_ring(const GroupMap& map,
                                         const PlanRequest& request,
                                         GlobalRank rank);
// hierarchical and ho_ring.
[[nodiscard]] BuiltPlan build_two_level(const GroupMap& map,
                                        const PlanRequest& request,
                                        GlobalRank rank);
// Broadcast of every algorithm but direct.
[[nodiscard]] BuiltPlan build_rail_broadcast(const GroupMap& map,
                                             const PlanRequest& request,
                                             GlobalRank rank);
[[nodiscard]] BuiltPlan build_direct(const GroupMap& map,
                                     const PlanRequest& request,
                                     GlobalRank rank);

}  // namespace ho
