// Which ranks a collective of a step joins, and over which elements. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "group/group_map.hpp"
#include "layout/unit_layout.hpp"
#include "step/step_plan.hpp"

namespace paro {

// Ranks that run one collective together on elements `range` of a unit's buffer.
struct Participants {
  std::vector<ho::GlobalRank> members;
  Range range;
  std::vector<uint64_t> parts;  // by member: elements that are its own
};

// The partition of what a collective moves of one of its units; not for kAgree, which moves no
// state.
[[nodiscard]] const Partition& partition_of(const std::vector<UnitLayout>& layouts,
                                            const Action& action,
                                            uint32_t unit);

// All ranks by where their group part begins, then by group: with equal groups the order of their
// world parts. With unequal groups a rank may own several parts, and no order is theirs.
[[nodiscard]] std::vector<ho::GlobalRank> world_order(const ho::GroupMap& groups);

// Intra: each group, over the whole buffer; by group rank. Inter: the owners of each segment, over
// the segment; by group. World: all ranks, in world_order().
[[nodiscard]] std::vector<Participants> participants(const Partition& partition,
                                                     const ho::GroupMap& groups,
                                                     Domain domain);

}  // namespace paro
