#include "run/routes.hpp"

#include <algorithm>

#include "step/participants.hpp"

namespace paro {
namespace {

// Fills in what follows from whose parts come in which order.
void lay(Route& route, const std::vector<std::vector<Range>>& parts_by_rank, size_t self) {
  uint64_t next = route.range.begin;
  uint64_t offset = 0;
  for (size_t rank = 0; rank < parts_by_rank.size(); ++rank) {
    if (rank == self) {
      route.own = parts_by_rank[rank];
      route.own_offset = offset;
    }
    size_t count = 0;
    for (const Range& part : parts_by_rank[rank]) {
      route.packed = route.packed || part.begin != next;
      next = part.end;
      count += part.count();
      route.parts.push_back(part);
    }
    route.counts.push_back(count);
    offset += count;
  }
}

size_t place_of(const std::vector<ho::GlobalRank>& ranks, ho::GlobalRank rank) {
  return static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Route Routes::through(const Partition& partition,
                      const std::vector<ho::GlobalRank>& order,
                      Scope scope,
                      const Domains& domains) {
  std::vector<std::vector<Range>> parts;
  parts.reserve(order.size());
  for (const ho::GlobalRank rank : order) {
    parts.push_back(partition.owned(scope, rank));
  }
  Route route;
  route.comm = scope == Scope::kWorld ? domains.world() : domains.intra();
  route.range = {0, partition.padded_count()};
  lay(route, parts, place_of(order, domains.self()));
  return route;
}

Routes::Routes(const Partition& partition, const Domains& domains) {
  if (partition.padded_count() == 0) {
    return;
  }
  const ho::GroupMap& groups = domains.groups();
  const ho::GroupIndex group = groups.group_of(domains.self());
  by_domain_[static_cast<size_t>(Domain::kIntra)].push_back(
      through(partition, groups.members(group), Scope::kGroup, domains));
  by_domain_[static_cast<size_t>(Domain::kWorld)].push_back(
      through(partition, world_order(groups), Scope::kWorld, domains));
  for (const Segment& segment : partition.segments()) {
    if (segment.owners[group.at()] != domains.self()) {
      continue;
    }
    std::vector<std::vector<Range>> parts;
    for (const Range& part : segment.parts) {
      parts.push_back(part.count() > 0 ? std::vector<Range>{part} : std::vector<Range>{});
    }
    Route route;
    route.comm = domains.inter(segment.owners);
    route.range = segment.range;
    lay(route, parts, group.at());
    by_domain_[static_cast<size_t>(Domain::kInter)].push_back(std::move(route));
  }
}

}  // namespace paro
