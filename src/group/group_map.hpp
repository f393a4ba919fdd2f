// The rank algebra: world -> groups -> rails. Pure.
//
// Every rank has a global rank, belongs to one group, and has a group rank inside it (its place
// among the group's ranks in ascending global order unless another order is given). The rails are
// the ranks of equal group rank; there are at most as many rails as the smallest group has ranks,
// and the ranks beyond that are "extra": they have no rail of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"

namespace ho {

class GroupMap {
 public:
  // group_of_rank[r] = any label; equal labels form a group. Groups are numbered by first
  // appearance, group ranks ascend with the global rank. At least one rank.
  [[nodiscard]] static Result<GroupMap> from_labels(const std::vector<std::string>& group_of_rank);
  // Groups with these sizes, ranks in block order (0,1,.. fill group 0 first). All sizes positive.
  [[nodiscard]] static Result<GroupMap> from_sizes(const std::vector<uint32_t>& sizes);
  // members[g][l] = global rank; every rank 0..W-1 exactly once, no group empty.
  [[nodiscard]] static Result<GroupMap> from_members(std::vector<std::vector<GlobalRank>> members);
  // "4x4" (groups x ranks), "1+3", "3+5+1", "8": block order. At most 65536 ranks.
  [[nodiscard]] static Result<GroupMap> parse(std::string_view text);

  [[nodiscard]] uint32_t world_size() const { return static_cast<uint32_t>(group_of_.size()); }
  [[nodiscard]] uint32_t group_count() const { return static_cast<uint32_t>(members_.size()); }
  [[nodiscard]] uint32_t group_size(GroupIndex group) const {
    return static_cast<uint32_t>(members_[group.at()].size());
  }
  // The same groups with `rails` rails, at least 1 and at most the ranks of the smallest group.
  [[nodiscard]] GroupMap with_rails(uint32_t rails) const;

  // Ranks of the smallest group unless with_rails() gave less.
  [[nodiscard]] uint32_t rail_count() const { return rail_count_; }
  [[nodiscard]] uint32_t smallest_group() const { return smallest_group_; }
  [[nodiscard]] uint32_t largest_group() const { return largest_group_; }
  [[nodiscard]] bool equal_groups() const { return smallest_group_ == largest_group_; }

  [[nodiscard]] GroupIndex group_of(GlobalRank rank) const { return group_of_[rank.at()]; }
  [[nodiscard]] GroupRank group_rank_of(GlobalRank rank) const { return group_rank_of_[rank.at()]; }
  [[nodiscard]] GlobalRank rank_at(GroupIndex group, GroupRank local) const {
    return members_[group.at()][local.at()];
  }
  // The rank's rail, or nothing for an extra rank.
  [[nodiscard]] std::optional<RailIndex> rail_of(GlobalRank rank) const;
  // The rank that serves `rail` in `group`.
  [[nodiscard]] GlobalRank rail_rank(GroupIndex group, RailIndex rail) const {
    return members_[group.at()][rail.at()];
  }
  [[nodiscard]] const std::vector<GlobalRank>& members(GroupIndex group) const {
    return members_[group.at()];
  }
  // The ring of groups: the group `steps` further (back: behind).
  [[nodiscard]] GroupIndex group_ahead(GroupIndex group, uint32_t steps) const;
  [[nodiscard]] GroupIndex group_behind(GroupIndex group, uint32_t steps) const;

  // "4x4" or "3+5+1"
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const GroupMap&, const GroupMap&) = default;

 private:
  GroupMap() = default;
  std::vector<std::vector<GlobalRank>> members_;
  std::vector<GroupIndex> group_of_;
  std::vector<GroupRank> group_rank_of_;
  uint32_t rail_count_ = 0;
  uint32_t smallest_group_ = 0;
  uint32_t largest_group_ = 0;
};

}  // namespace ho
