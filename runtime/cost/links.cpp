#include "cost/links.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace paro {
namespace {

ho::cost::Cluster cluster_of(const WorldShape& world, const Links& links) {
  ho::cost::Level group;
  group.name = "group";
  group.size = world.group_size;
  group.rate = links.intra_bytes_per_s;
  group.latency_s = links.intra_latency_s;
  ho::cost::Level groups;
  groups.name = "world";
  groups.size = world.group_count;
  groups.rate = links.inter_bytes_per_s;
  groups.nics = links.nics_per_group;
  groups.latency_s = links.inter_latency_s;
  return {group, groups};
}

ho::cost::Algorithm algorithm_of(WorldAlgorithm algorithm) {
  switch (algorithm) {
    case WorldAlgorithm::kRing:
      return ho::cost::Algorithm::kRing;
    case WorldAlgorithm::kMultiRing:
      return ho::cost::Algorithm::kMultiRing;
    case WorldAlgorithm::kHoRing:
      break;
  }
  return ho::cost::Algorithm::kHoRing;
}

}  // namespace

CollectiveSeconds::Protocol CollectiveSeconds::protocol_of(ho::cost::Cluster cluster,
                                                           const WorldShape& world) {
  const ho::cost::Members all = ho::cost::all_ranks(cluster);
  const auto group = ho::cost::inside_groups(cluster, world.group_size);
  const auto rail = ho::cost::between_groups(cluster, world.group_size);
  return {std::move(cluster), group.ok() ? *group : all, rail.ok() ? *rail : all, all};
}

CollectiveSeconds::CollectiveSeconds(const WorldShape& world, const Links& links)
    : links_(links), by_rates_(protocol_of(cluster_of(world, links), world)) {
  for (const ho::cost::Cluster& cluster : links.protocols) {
    protocols_.push_back(protocol_of(cluster, world));
  }
  if (protocols_.empty()) {
    protocols_.push_back(by_rates_);
  }
}

ho::cost::Call CollectiveSeconds::call(ho::Collective collective, double bytes) const {
  return {collective, algorithm_of(links_.world), bytes};
}

double CollectiveSeconds::fastest(ho::cost::Members Protocol::*who,
                                  const ho::cost::Call& call) const {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : protocols_) {
    seconds = std::min(seconds, seconds_of(protocol.cluster, protocol.*who, call));
  }
  return seconds;
}

double CollectiveSeconds::intra(ho::Collective collective, double bytes) const {
  return links_.intra_call_s + fastest(&Protocol::group, call(collective, bytes));
}

double CollectiveSeconds::inter(ho::Collective collective, double bytes) const {
  return links_.inter_call_s + fastest(&Protocol::rail, call(collective, bytes));
}

double CollectiveSeconds::world(ho::Collective collective, double bytes) const {
  return links_.world_call_s + fastest(&Protocol::all, call(collective, bytes));
}

bool CollectiveSeconds::world_waits_inside() const {
  const auto work = work_of(by_rates_.cluster, by_rates_.all, call(ho::Collective::kAllGather, 1));
  return slowest_level(by_rates_.cluster, by_rates_.all, work) == 0;
}

}  // namespace paro
