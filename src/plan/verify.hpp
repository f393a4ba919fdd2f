// Proves a plan correct without running it. No plan runs unverified: tests sweep every builder, and
// debug builds verify each plan that a communicator caches.
#pragma once

#include "base/status.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

// Checks, in this order; the first failure is returned and names rank, op, chunk and rule:
// 1. bounds: ranks, chunks, rails, deps (earlier, same chunk unless whole_ops), lanes (an intra op
//    stays in its group, an inter op leaves it), chunk parts tile every block;
// 2. pairing: the k-th send of a link pairs with the k-th receive of its other end with the same
// chunks,
//    none left over;
// 3. no cycle through link order, deps, phase barriers and messages;
// 4. no two unordered accesses to one chunk where one writes, both out of place and in place
//    (input and output the same memory);
// 5. a symbolic run in which each rank's contribution reaches each place exactly once
//    (contributions are counted), and every sum is marked final exactly once where it is complete;
// 6. for hierarchical and ho_ring, and for collectives whose blocks go from one rank to one rank:
//    the bytes that cross each node boundary are the least possible (what comes from another group
//    enters each group that it goes to once; a sum for one rank leaves each other group once; what
//    goes from one rank to one rank does both; all-reduce: (g-1)/g of the data each way, twice),
//    and each group's rails carry the same amount to within one part.
[[nodiscard]] Status verify(const WholePlan& whole, const GroupMap& map);

}  // namespace ho
