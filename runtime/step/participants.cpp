#include "step/participants.hpp"

#include <algorithm>
#include <utility>

namespace paro {
namespace {

using ho::GlobalRank;
using ho::GroupIndex;

}  // namespace

const Partition& partition_of(const std::vector<UnitLayout>& layouts,
                              const Action& action,
                              uint32_t unit) {
  const UnitLayout& layout = layouts.at(unit);
  return action.content == Content::kFrozen ? layout.frozen : layout.trained;
}

std::vector<GlobalRank> world_order(const ho::GroupMap& groups) {
  std::vector<GlobalRank> order;
  order.reserve(groups.world_size());
  for (uint32_t r = 0; r < groups.world_size(); ++r) {
    order.emplace_back(r);
  }
  std::sort(order.begin(), order.end(), [&](GlobalRank a, GlobalRank b) {
    // l / m of one against l / m of the other, without fractions.
    const auto closeness = [&](GlobalRank rank, GlobalRank other) {
      return uint64_t{groups.group_rank_of(rank).value()} *
             groups.group_size(groups.group_of(other));
    };
    return std::pair(closeness(a, b), groups.group_of(a)) <
           std::pair(closeness(b, a), groups.group_of(b));
  });
  return order;
}

std::vector<Participants> participants(const Partition& partition,
                                       const ho::GroupMap& groups,
                                       Domain domain) {
  const auto all_of = [&](std::vector<GlobalRank> members, Scope scope) {
    Participants set{std::move(members), {0, partition.padded_count()}, {}};
    for (const GlobalRank rank : set.members) {
      set.parts.push_back(partition.owned_count(scope, rank));
    }
    return set;
  };
  std::vector<Participants> sets;
  switch (domain) {
    case Domain::kIntra:
      for (uint32_t g = 0; g < groups.group_count(); ++g) {
        sets.push_back(all_of(groups.members(GroupIndex(g)), Scope::kGroup));
      }
      return sets;
    case Domain::kInter:
      for (const Segment& segment : partition.segments()) {
        sets.push_back({segment.owners, segment.range, {}});
        for (const Range& part : segment.parts) {
          sets.back().parts.push_back(part.count());
        }
      }
      return sets;
    case Domain::kWorld:
      break;
  }
  sets.push_back(all_of(world_order(groups), Scope::kWorld));
  return sets;
}

}  // namespace paro
