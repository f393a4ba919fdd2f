// Plans as text for people and golden files.
#pragma once

#include <string>

#include "group/group_map.hpp"
#include "plan/plan.hpp"
#include "plan/summary.hpp"

namespace ho {

// "3/16", reduced; "0" and "1" as they are.
[[nodiscard]] std::string fraction(uint64_t units, uint64_t whole);
// "  4  recv_reduce  block 3  from rank 2  inter rail 1  scratch -> output  final  after 2"
[[nodiscard]] std::string print_op(const Plan& plan, const RankPlan& ranks_ops, size_t index);
// Everything: shape, phases, steps, bytes per boundary and link, overlap, and the ops of `rank`.
[[nodiscard]] std::string print_plan(const WholePlan& whole,
                                     const GroupMap& map,
                                     const PlanSummary& summary,
                                     GlobalRank rank);

}  // namespace ho
