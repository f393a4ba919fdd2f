// The flat ring: all ranks in one circle, group by group, so that each group boundary is crossed
// once in each direction by one NIC. It is multi_ring with a single ring, kept as the baseline:
// each NIC of the ring carries all but one block of the data, however many NICs a group has.
#include "plan/builders.hpp"

namespace ho {

BuiltPlan build_ring(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  PlanRequest single = request;
  single.ring_count = 1;
  return build_multi_ring(map, single, rank);
}

}  // namespace ho
