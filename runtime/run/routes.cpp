#include "run/routes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "step/participants.hpp"

namespace paro {
namespace {

using Partitions = std::span<const Partition* const>;
using RangesByRank = std::vector<std::vector<BufferRange>>;

// Fills in what follows from whose parts come in which order.
void lay(Route& route, const RangesByRank& parts_by_rank, size_t self) {
  route.packed = route.merged;
  uint64_t next = route.begin;
  for (size_t rank = 0; rank < parts_by_rank.size(); ++rank) {
    if (rank == self) {
      route.own = parts_by_rank[rank];
      route.own_offset = route.count;
    }
    size_t count = 0;
    for (const BufferRange& part : parts_by_rank[rank]) {
      route.packed = route.packed || part.range.begin != next;
      next = part.range.end;
      count += part.range.count();
      route.parts.push_back(part);
    }
    route.counts.push_back(count);
    route.count += count;
  }
}

size_t index_of(const std::vector<ho::GlobalRank>& ranks, ho::GlobalRank rank) {
  return static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// The collective that brings together what the ranks of `order` own at a scope.
Route through(Partitions partitions,
              const std::vector<ho::GlobalRank>& order,
              Scope scope,
              const Domains& domains) {
  RangesByRank parts(order.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    for (size_t buffer = 0; buffer < partitions.size(); ++buffer) {
      for (const Range& range : partitions[buffer]->owned(scope, order[rank])) {
        parts[rank].push_back({buffer, range});
      }
    }
  }
  Route route;
  route.over = scope == Scope::kWorld ? domains.over_world() : domains.over_group();
  route.merged = partitions.size() > 1;
  lay(route, parts, index_of(order, domains.self()));
  return route;
}

// Segments of the same owners, each in one buffer.
struct Shared {
  std::vector<ho::GlobalRank> owners;
  uint64_t begin = 0;  // of the first
  RangesByRank parts;
};

// What this rank shares with ranks of the other groups, by who they are.
std::vector<Shared> shared_between_groups(Partitions partitions,
                                          const Domains& domains,
                                          ho::GroupIndex group) {
  std::vector<Shared> all;
  for (size_t buffer = 0; buffer < partitions.size(); ++buffer) {
    for (const Segment& segment : partitions[buffer]->segments()) {
      if (segment.owners[group.at()] != domains.self()) {
        continue;
      }
      auto found = std::find_if(all.begin(), all.end(), [&](const Shared& shared) {
        return shared.owners == segment.owners;
      });
      if (found == all.end()) {
        all.push_back({segment.owners, segment.range.begin, RangesByRank(segment.owners.size())});
        found = std::prev(all.end());
      }
      for (size_t owner = 0; owner < segment.parts.size(); ++owner) {
        if (segment.parts[owner].count() > 0) {
          found->parts[owner].push_back({buffer, segment.parts[owner]});
        }
      }
    }
  }
  return all;
}

}  // namespace

Routes::Routes(const Partition& partition, const Domains& domains) {
  if (partition.padded_count() > 0) {
    const Partition* const one = &partition;
    *this = Routes(Partitions(&one, 1), domains);
  }
}

Routes::Routes(Partitions partitions, const Domains& domains) {
  const ho::GroupMap& groups = domains.groups();
  const ho::GroupIndex group = groups.group_of(domains.self());
  by_domain_[static_cast<size_t>(Domain::kIntra)].push_back(
      through(partitions, groups.members(group), Scope::kGroup, domains));
  by_domain_[static_cast<size_t>(Domain::kWorld)].push_back(
      through(partitions, world_order(groups), Scope::kWorld, domains));
  for (const Shared& shared : shared_between_groups(partitions, domains, group)) {
    Route route;
    route.over = domains.over_owners(shared.owners);
    route.merged = partitions.size() > 1;
    route.begin = shared.begin;
    lay(route, shared.parts, group.at());
    by_domain_[static_cast<size_t>(Domain::kInter)].push_back(std::move(route));
  }
}

}  // namespace paro
