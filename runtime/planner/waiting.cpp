#include "planner/waiting.hpp"

#include <algorithm>

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

// Of a unit's ranks only so many send at once, each by one of its NICs at most. The model has all
// of them send, so it takes a part of the bytes.
double modelled_share(const DimensionTraffic& traffic,
                      const ho::cost::Members& members,
                      const ho::cost::Cluster& levels) {
  double ranks_of_unit = 1;
  double nics_of_rank = 1;
  for (size_t at = 0; at < levels.size(); ++at) {
    if (members.at(at) > 1) {
      nics_of_rank = levels[at].nics / (levels[at].oversubscription * ranks_of_unit);
    }
    ranks_of_unit *= levels[at].size;
  }
  return std::max(traffic.at_once, std::min(1.0, nics_of_rank));
}

}  // namespace

double dimension_s(const DimensionTraffic& traffic,
                   const WorldShape& nodes,
                   const Links& links,
                   double sequences,
                   double launch_s) {
  const ho::cost::Cluster levels = levels_of(nodes, links);
  const ho::cost::Members members = members_of(traffic, levels);
  const double bytes =
      sequences * traffic.bytes / traffic.calls * modelled_share(traffic, members, levels);
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
