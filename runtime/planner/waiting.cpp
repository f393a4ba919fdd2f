#include "planner/waiting.hpp"

namespace paro {
namespace {

// With the bytes that each rank sends, of which the model takes those of all ranks' blocks.
ho::cost::Call call_of(const DimensionTraffic& traffic, const Links& links, double sent_bytes) {
  const double ranks = traffic.ranks;
  const double bytes = sent_bytes * ranks / (ranks - 1);
  switch (traffic.pattern) {
    case Pattern::kGather:
      return {.algorithm = algorithm_of(links.world), .bytes = bytes};
    case Pattern::kCircle:
      return {.algorithm = ho::cost::Algorithm::kRing, .bytes = bytes};
    case Pattern::kPairs:
      break;
  }
  return {ho::Collective::kAllToAll, ho::cost::Algorithm::kPairs, bytes};
}

}  // namespace

double dimension_s(const DimensionTraffic& traffic,
                   const WorldShape& nodes,
                   const Links& links,
                   double sequences,
                   double launch_s) {
  const double bytes = sequences * traffic.bytes / traffic.calls * traffic.at_once;
  const ho::cost::Members members = members_of(traffic, levels_of(nodes, links));
  return traffic.calls *
         (launch_s + seconds_among(members, nodes, links, call_of(traffic, links, bytes)));
}

WaitingSeconds waiting_seconds(const OtherDimensions& others,
                               double micro_batch,
                               double micro_batches,
                               double launch_s) {
  WaitingSeconds waiting;
  const Links half = half_as_good(others.nodes, others.links);
  for (const DimensionTraffic& each : others.traffic) {
    waiting.usual += dimension_s(each, others.nodes, others.links, micro_batch, launch_s);
    waiting.on_half_links += dimension_s(each, others.nodes, half, micro_batch, launch_s);
  }
  const double times = micro_batches * (1 + others.bubble);
  return {waiting.usual * times, waiting.on_half_links * times};
}

}  // namespace paro
