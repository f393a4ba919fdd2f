#include "cost/links.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace paro {
namespace {

ho::cost::Cluster two_levels(const WorldShape& world, const Links& links) {
  ho::cost::Level group;
  group.name = "node";
  group.size = world.group_size;
  group.rate = links.intra_bytes_per_s;
  group.latency_s = links.intra_latency_s;
  ho::cost::Level groups;
  groups.name = "cluster";
  groups.size = world.group_count;
  groups.rate = links.inter_bytes_per_s;
  groups.nics = links.nics_per_group;
  groups.latency_s = links.inter_latency_s;
  return {group, groups};
}

// All levels above a node's, or that one where they join nothing.
void halve_outer(ho::cost::Cluster& cluster) {
  const auto joins = [](const ho::cost::Level& level) { return level.size > 1; };
  const bool nodes = std::any_of(cluster.begin() + 1, cluster.end(), joins);
  std::for_each(cluster.begin() + (nodes ? 1 : 0), cluster.end(), [](ho::cost::Level& level) {
    level.rate /= 2;
    level.latency_s *= 2;
    level.start_s *= 2;
  });
}

}  // namespace

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

Links half_as_good(const WorldShape& world, const Links& links) {
  Links half = links;
  const bool nodes = world.group_count > 1;
  double& rate = nodes ? half.inter_bytes_per_s : half.intra_bytes_per_s;
  double& latency = nodes ? half.inter_latency_s : half.intra_latency_s;
  double& call = nodes ? half.inter_call_s : half.intra_call_s;
  rate /= 2;
  latency *= 2;
  call *= 2;
  half.world_call_s *= 2;
  if (!half.levels.empty()) {
    halve_outer(half.levels);
  }
  for (ho::cost::Cluster& cluster : half.protocols) {
    halve_outer(cluster);
  }
  for (ho::cost::Cluster& cluster : half.trees) {
    halve_outer(cluster);
  }
  return half;
}

ho::cost::Cluster levels_of(const WorldShape& world, const Links& links) {
  return links.levels.empty() ? two_levels(world, links) : links.levels;
}

size_t outermost_level(const ho::cost::Cluster& cluster) {
  size_t outermost = cluster.size() - 1;
  while (outermost > 0 && cluster[outermost].size == 1) {
    --outermost;
  }
  return outermost;
}

double seconds_among(const ho::cost::Members& members,
                     const WorldShape& nodes,
                     const Links& links,
                     const ho::cost::Call& call) {
  const bool inside = members.front() == ho::cost::member_count(members);
  const double call_s = !links.levels.empty() ? 0
                        : inside              ? links.intra_call_s
                                              : links.inter_call_s;
  if (links.protocols.empty()) {
    return call_s + seconds_of(levels_of(nodes, links), members, call);
  }
  double seconds = std::numeric_limits<double>::infinity();
  for (const ho::cost::Cluster& cluster : links.protocols) {
    seconds = std::min(seconds, seconds_of(cluster, members, call));
  }
  return call_s + seconds;
}

CollectiveSeconds::Protocol CollectiveSeconds::protocol_of(ho::cost::Cluster cluster,
                                                           const WorldShape& world) {
  const ho::cost::Members all = ho::cost::all_ranks(cluster);
  const ho::cost::Members group = inside_groups(cluster, world.group_size).value();
  const ho::cost::Members rail = between_groups(cluster, world.group_size).value();
  return {std::move(cluster), group, rail, all};
}

CollectiveSeconds::CollectiveSeconds(const WorldShape& world, const Links& links) : links_(links) {
  for (const ho::cost::Cluster& cluster : links.protocols) {
    protocols_.push_back(protocol_of(cluster, world));
  }
  if (protocols_.empty()) {
    protocols_.push_back(protocol_of(levels_of(world, links), world));
  }
  for (const ho::cost::Cluster& cluster : links.trees) {
    trees_.push_back(protocol_of(cluster, world));
  }
  if (!links.levels.empty()) {  // they have what a collective takes to start
    links_.intra_call_s = links_.inter_call_s = links_.world_call_s = 0;
  }
}

double CollectiveSeconds::fastest(ho::cost::Members Protocol::*who,
                                  ho::Collective collective,
                                  double bytes) const {
  double seconds = std::numeric_limits<double>::infinity();
  const auto try_all = [&](const std::vector<Protocol>& all, ho::cost::Algorithm algorithm) {
    for (const Protocol& protocol : all) {
      seconds = std::min(
          seconds, seconds_of(protocol.cluster, protocol.*who, {collective, algorithm, bytes}));
    }
  };
  try_all(protocols_, algorithm_of(links_.world));
  try_all(trees_, ho::cost::Algorithm::kTree);  // of other collectives infinite
  return seconds;
}

double CollectiveSeconds::intra(ho::Collective collective, double bytes) const {
  return links_.intra_call_s + fastest(&Protocol::group, collective, bytes);
}

double CollectiveSeconds::inter(ho::Collective collective, double bytes) const {
  return links_.inter_call_s + fastest(&Protocol::rail, collective, bytes * links_.between_factor);
}

double CollectiveSeconds::world(ho::Collective collective, double bytes) const {
  return links_.world_call_s + fastest(&Protocol::all, collective, bytes * links_.between_factor);
}

CollectiveSeconds::WorldLinks CollectiveSeconds::world_links(ho::Collective collective,
                                                             double bytes) const {
  const Protocol& protocol = protocols_.front();
  const ho::cost::Cluster& cluster = protocol.cluster;
  const auto work =
      work_of(cluster,
              protocol.all,
              {collective, algorithm_of(links_.world), bytes * links_.between_factor});
  double inside = 0;
  double between = 0;
  for (size_t at = 0; at < cluster.size(); ++at) {
    const ho::cost::LevelWork& level = work.levels.at(at);
    if (level.bytes > 0) {
      double& longest = protocol.rail.at(at) == 1 ? inside : between;
      longest = std::max(longest, level.bytes / rate_of(cluster, protocol.all, at, level));
    }
  }
  const double longest = std::max(inside, between);
  return {inside > between, longest > 0 ? std::min(inside, between) / longest : 0};
}

LevelBytes::LevelBytes(const WorldShape& world, const Links& links, Over over)
    : algorithm_(links.world),
      between_factor_(links.between_factor),
      cluster_(levels_of(world, links)),
      over_(over),
      group_(inside_groups(cluster_, world.group_size).value()),
      rail_(between_groups(cluster_, world.group_size).value()) {}

double LevelBytes::sent(const ho::cost::Members& members,
                        ho::Collective collective,
                        double bytes) const {
  const auto work = work_of(cluster_, members, {collective, algorithm_of(algorithm_), bytes});
  if (over_ == Over::kInnermost) {
    return work.levels.front().bytes;
  }
  if (over_ == Over::kOutermost) {
    const size_t outermost = outermost_level(cluster_);
    double at_once = outermost > 0 ? between_factor_ : 1;  // in each unit
    for (size_t at = 0; at < outermost; ++at) {
      at_once *= double{1} * cluster_[at].size / members.at(at);
    }
    return at_once * work.levels.at(outermost).bytes;
  }
  // What leaves the innermost unit: levels further out have the same bytes once more.
  double members_of_unit = 1;
  for (size_t at = 1; at < cluster_.size(); ++at) {
    members_of_unit *= members.at(at - 1);
    if (work.levels.at(at).bytes > 0) {
      return work.levels.at(at).bytes / members_of_unit * between_factor_;
    }
  }
  return 0;
}

double LevelBytes::intra(ho::Collective collective, double bytes) const {
  return sent(group_, collective, bytes);
}

double LevelBytes::inter(ho::Collective collective, double bytes) const {
  return sent(rail_, collective, bytes);
}

double LevelBytes::world(ho::Collective collective, double bytes) const {
  return sent(ho::cost::all_ranks(cluster_), collective, bytes);
}

}  // namespace paro
