#include "comm/placement.hpp"

#include <algorithm>
#include <set>

namespace ho {

std::vector<RailInterface> Placement::rails_of(GlobalRank rank) const {
  std::vector<RailInterface> rails;
  const GroupIndex group = map.group_of(rank);
  for (uint32_t r = 0; r < map.rail_count(); ++r) {
    const GlobalRank owner = map.rail_rank(group, RailIndex(r));
    rails.push_back(nic[same_host(rank, owner) ? owner.at() : rank.at()]);
  }
  return rails;
}

uint32_t Placement::ring_count() const {
  size_t fewest = map.rail_count();
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    std::set<std::string> addresses;
    for (uint32_t r = 0; r < map.rail_count(); ++r) {
      addresses.insert(nic[map.rail_rank(GroupIndex(g), RailIndex(r)).at()].address);
    }
    fewest = std::min(fewest, addresses.size());
  }
  return static_cast<uint32_t>(fewest);
}

std::vector<GlobalRank> Placement::ranks_on_host_of(GlobalRank rank) const {
  std::vector<GlobalRank> ranks;
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    if (same_host(rank, GlobalRank(r))) {
      ranks.push_back(GlobalRank(r));
    }
  }
  return ranks;
}

Result<Placement> Placement::part(const std::vector<GlobalRank>& members) const {
  std::vector<std::string> labels;
  std::vector<std::string> ids;
  std::vector<std::string> names;
  std::vector<RailInterface> nics;
  for (const GlobalRank rank : members) {
    labels.push_back(std::to_string(map.group_of(rank).value()));
    ids.push_back(host_id[rank.at()]);
    names.push_back(host_name[rank.at()]);
    nics.push_back(nic[rank.at()]);
  }
  HORING_ASSIGN(GroupMap groups, GroupMap::from_labels(labels));
  return Placement{std::move(groups), std::move(ids), std::move(names), std::move(nics), {}};
}

}  // namespace ho
