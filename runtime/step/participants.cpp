#include "step/participants.hpp"

#include <algorithm>
#include <utility>

namespace paro {
namespace {

using ho::GlobalRank;
using ho::GroupIndex;

Range whole(const Partition& partition) {
  return {0, partition.padded_count()};
}

}  // namespace

const Partition& partition_of(const std::vector<UnitLayout>& layouts, const Action& action) {
  const UnitLayout& layout = layouts.at(action.unit);
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
    const auto place = [&](GlobalRank rank, GlobalRank other) {
      return uint64_t{groups.group_rank_of(rank).value()} *
             groups.group_size(groups.group_of(other));
    };
    return std::pair(place(a, b), groups.group_of(a)) < std::pair(place(b, a), groups.group_of(b));
  });
  return order;
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
  sets.push_back({world_order(groups), whole(partition)});
  return sets;
}

}  // namespace paro
