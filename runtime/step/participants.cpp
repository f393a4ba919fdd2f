#include "step/participants.hpp"

#include <algorithm>

namespace paro {
namespace {

using ho::GlobalRank;
using ho::GroupIndex;

Range whole(const Partition& partition) {
  return {0, partition.padded_count()};
}

std::vector<GlobalRank> by_world_part(const Partition& partition, const ho::GroupMap& groups) {
  std::vector<GlobalRank> order;
  for (uint32_t r = 0; r < groups.world_size(); ++r) {
    order.emplace_back(r);
  }
  std::stable_sort(order.begin(), order.end(), [&](GlobalRank a, GlobalRank b) {
    const auto first = [&](GlobalRank rank) {
      const auto& owned = partition.owned(Scope::kWorld, rank);
      return owned.empty() ? UINT64_MAX : owned.front().begin;
    };
    return first(a) < first(b);
  });
  return order;
}

}  // namespace

const Partition& partition_of(const std::vector<UnitLayout>& layouts, const Action& action) {
  const UnitLayout& layout = layouts.at(action.unit);
  return action.content == Content::kFrozen ? layout.frozen : layout.trained;
}

std::vector<Participants> participants(const Partition& partition,
                                       const ho::GroupMap& groups,
                                       Domain domain) {
  std::vector<Participants> sets;
  switch (domain) {
    case Domain::kIntra:
      for (uint32_t g = 0; g < groups.group_count(); ++g) {
        sets.push_back({groups.members(GroupIndex(g)), whole(partition)});
      }
      return sets;
    case Domain::kInter:
      for (const Segment& segment : partition.segments()) {
        sets.push_back({segment.owners, segment.range});
      }
      return sets;
    case Domain::kWorld:
      break;
  }
  sets.push_back({by_world_part(partition, groups), whole(partition)});
  return sets;
}

}  // namespace paro
