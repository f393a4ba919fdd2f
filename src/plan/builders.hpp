// The builders behind build_plan(), one per algorithm. Each fills the shared part and the ops of
// `rank`, at a cost that grows with that rank's ops and the number of chunks, not with all ranks'
// ops. The request is valid and the world has at least two ranks.
#pragma once

#include <cstdint>

#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

// Which chunks the plan of an all-to-all has: those of all ranks, or (own_chunks) of the rank's
// ops.
enum class RoutedChunks : uint8_t { kAll, kOwn };

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
// Reduce of every algorithm but direct.
[[nodiscard]] BuiltPlan build_rail_reduce(const GroupMap& map,
                                          const PlanRequest& request,
                                          GlobalRank rank);
// All-to-all, gather and scatter of every algorithm; direct has the same routes in whole messages.
[[nodiscard]] BuiltPlan build_routed(const GroupMap& map,
                                     const PlanRequest& request,
                                     GlobalRank rank,
                                     RoutedChunks chunks);
// How many chunks all ranks have together.
[[nodiscard]] uint64_t routed_chunk_count(const GroupMap& map, const PlanRequest& request);
// All but all-to-all, gather and scatter.
[[nodiscard]] BuiltPlan build_direct(const GroupMap& map,
                                     const PlanRequest& request,
                                     GlobalRank rank);

}  // namespace ho
