#include "comm/placement.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "topo/rail_choice.hpp"

namespace ho {
namespace {

// NicChoice of `ranks`, in that order.
std::vector<RailNic> nics_of(const Placement& placement, const std::vector<GlobalRank>& ranks) {
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  std::vector<RailNic> nics;
  for (const GlobalRank rank : ranks) {
    const auto nic = std::pair(placement.host_id[rank.at()], placement.nic[rank.at()].address);
    const size_t number = numbers.emplace(nic, numbers.size()).first->second;
    nics.push_back({number, placement.nic_mbit[rank.at()]});
  }
  return nics;
}

// The members of each group of `map` in the order that they have in `whole`, where ranks of equal
// group rank reach each other. members[r]: rank r's number in `whole`.
std::vector<std::vector<GlobalRank>> in_group_order(const Placement& whole,
                                                    const std::vector<GlobalRank>& members,
                                                    const GroupMap& map) {
  std::vector<std::vector<GlobalRank>> groups;
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    std::vector<GlobalRank>& ranks = groups.emplace_back(map.members(GroupIndex(g)));
    std::ranges::sort(ranks, [&](GlobalRank a, GlobalRank b) {
      return whole.map.group_rank_of(members[a.at()]) < whole.map.group_rank_of(members[b.at()]);
    });
  }
  return groups;
}

// Different NICs under the first rails, as many rails as that is worth.
Result<GroupMap> with_suited_rails(const Placement& placement,
                                   const std::vector<std::vector<GlobalRank>>& ordered) {
  if (placement.map.group_count() == 1) {
    return placement.map;
  }
  std::vector<std::vector<GlobalRank>> groups;
  std::vector<std::vector<RailNic>> nics;
  for (const std::vector<GlobalRank>& before : ordered) {
    std::vector<GlobalRank>& members = groups.emplace_back();
    for (const size_t at : deal_nics(nics_of(placement, before))) {
      members.push_back(before[at]);
    }
    nics.push_back(nics_of(placement, members));
  }
  HORING_ASSIGN(const GroupMap map, GroupMap::from_members(std::move(groups)));
  return map.with_rails(choose_rail_count(nics, placement.wanted_rails));
}

}  // namespace

std::vector<RailInterface> Placement::rails_of(GlobalRank rank) const {
  std::vector<RailInterface> rails;
  const GroupIndex group = map.group_of(rank);
  for (uint32_t r = 0; r < map.rail_count(); ++r) {
    const GlobalRank owner = map.rail_rank(group, RailIndex(r));
    rails.push_back(nic[same_host(rank, owner) ? owner.at() : rank.at()]);
  }
  return rails;
}

std::vector<RailInterface> Placement::spares_beside(const std::vector<RailInterface>& rails) const {
  std::vector<RailInterface> spares;
  const auto is_spare = [&](const RailInterface& here) {
    return std::ranges::none_of(rails, [&](const auto& rail) { return rail.name == here.name; });
  };
  std::ranges::copy_if(nics_here, std::back_inserter(spares), is_spare);
  return spares;
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
  labels.reserve(members.size());
  for (const GlobalRank rank : members) {
    labels.push_back(std::to_string(map.group_of(rank).value()));
  }
  HORING_ASSIGN(GroupMap groups, GroupMap::from_labels(labels));
  Placement made{.map = std::move(groups),
                 .wanted_rails = wanted_rails,
                 .device = device,
                 .nics_here = nics_here};
  for (const GlobalRank rank : members) {
    made.host_id.push_back(host_id[rank.at()]);
    made.host_name.push_back(host_name[rank.at()]);
    made.nic.push_back(nic[rank.at()]);
    made.nic_mbit.push_back(nic_mbit[rank.at()]);
  }
  if (levels) {
    JobLevels& own = made.levels.emplace(JobLevels{levels->levels, levels->group_levels, {}});
    for (const GlobalRank rank : members) {
      own.positions.push_back(levels->positions[rank.at()]);
    }
  }
  HORING_ASSIGN(made.map, with_suited_rails(made, in_group_order(*this, members, made.map)));
  return made;
}

}  // namespace ho
