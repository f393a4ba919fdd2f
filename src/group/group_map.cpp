#include "group/group_map.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr uint32_t kMaxRanks = 65536;

std::optional<uint32_t> parse_count(std::string_view text) {
  const auto value = whole_number<uint32_t>(text);
  return value && *value > 0 && *value <= kMaxRanks ? value : std::nullopt;
}

Status bad_shape(std::string_view text) {
  return invalid("groups '" + std::string(text) +
                 "': write GROUPSxRANKS (4x4), sizes joined by + (1+3), or one size (8); at most " +
                 std::to_string(kMaxRanks) + " ranks");
}

}  // namespace

Result<GroupMap> GroupMap::from_members(std::vector<std::vector<GlobalRank>> members) {
  size_t world = 0;
  for (const auto& group : members) {
    if (group.empty()) {
      return invalid("a group without ranks");
    }
    world += group.size();
  }
  if (world == 0 || world > kMaxRanks) {
    return invalid("a world of " + std::to_string(world) + " ranks; 1 to " +
                   std::to_string(kMaxRanks) + " are possible");
  }
  GroupMap map;
  map.group_of_.resize(world);
  map.group_rank_of_.resize(world);
  map.smallest_group_ = std::numeric_limits<uint32_t>::max();
  std::vector<bool> seen(world, false);
  for (size_t g = 0; g < members.size(); ++g) {
    for (size_t l = 0; l < members[g].size(); ++l) {
      const GlobalRank rank = members[g][l];
      if (rank.at() >= world || seen[rank.at()]) {
        return invalid("rank " + std::to_string(rank.value()) +
                       (rank.at() < world ? " is in two groups" : " is not below the world size"));
      }
      seen[rank.at()] = true;
      map.group_of_[rank.at()] = GroupIndex(g);
      map.group_rank_of_[rank.at()] = GroupRank(l);
    }
    const auto size = static_cast<uint32_t>(members[g].size());
    map.smallest_group_ = std::min(map.smallest_group_, size);
    map.largest_group_ = std::max(map.largest_group_, size);
  }
  map.rail_count_ = map.smallest_group_;
  map.members_ = std::move(members);
  return map;
}

Result<GroupMap> GroupMap::from_labels(const std::vector<std::string>& group_of_rank) {
  std::map<std::string_view, size_t> index_of;
  std::vector<std::vector<GlobalRank>> members;
  for (size_t rank = 0; rank < group_of_rank.size(); ++rank) {
    const auto [entry, fresh] = index_of.emplace(group_of_rank[rank], members.size());
    if (fresh) {
      members.emplace_back();
    }
    members[entry->second].push_back(GlobalRank(rank));
  }
  return from_members(std::move(members));
}

Result<GroupMap> GroupMap::from_sizes(const std::vector<uint32_t>& sizes) {
  std::vector<std::vector<GlobalRank>> members;
  uint64_t next = 0;
  for (const uint32_t size : sizes) {
    if (next + size > kMaxRanks) {
      return invalid("more than " + std::to_string(kMaxRanks) + " ranks");
    }
    auto& group = members.emplace_back();
    for (uint32_t l = 0; l < size; ++l) {
      group.push_back(GlobalRank(static_cast<uint32_t>(next++)));
    }
  }
  return from_members(std::move(members));
}

Result<GroupMap> GroupMap::parse(std::string_view text) {
  std::vector<uint32_t> sizes;
  if (const size_t x = text.find('x'); x != std::string_view::npos) {
    const auto groups = parse_count(text.substr(0, x));
    const auto ranks = parse_count(text.substr(x + 1));
    if (!groups || !ranks || uint64_t{*groups} * *ranks > kMaxRanks) {
      return bad_shape(text);
    }
    sizes.assign(*groups, *ranks);
    return from_sizes(sizes);
  }
  for (std::string_view rest = text;;) {
    const size_t plus = rest.find('+');
    const auto size = parse_count(rest.substr(0, plus));
    if (!size) {
      return bad_shape(text);
    }
    sizes.push_back(*size);
    if (plus == std::string_view::npos) {
      return from_sizes(sizes);
    }
    rest.remove_prefix(plus + 1);
  }
}

GroupMap GroupMap::with_rails(uint32_t rails) const {
  GroupMap map = *this;
  map.rail_count_ = std::clamp(rails, 1U, smallest_group_);
  return map;
}

std::optional<RailIndex> GroupMap::rail_of(GlobalRank rank) const {
  const GroupRank local = group_rank_of(rank);
  if (local.value() >= rail_count_) {
    return std::nullopt;
  }
  return RailIndex(local.value());
}

GroupIndex GroupMap::group_ahead(GroupIndex group, uint32_t steps) const {
  return GroupIndex((group.value() + steps % group_count()) % group_count());
}

GroupIndex GroupMap::group_behind(GroupIndex group, uint32_t steps) const {
  return GroupIndex((group.value() + group_count() - steps % group_count()) % group_count());
}

std::string GroupMap::to_string() const {
  if (equal_groups()) {
    return std::to_string(group_count()) + "x" + std::to_string(smallest_group_);
  }
  std::string text;
  for (const auto& group : members_) {
    text += (text.empty() ? "" : "+") + std::to_string(group.size());
  }
  return text;
}

}  // namespace ho
