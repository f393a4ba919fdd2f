// Levels and groups in words. Pure.
#pragma once

#include <string>

#include "planner/text/answer.hpp"

namespace paro {

// "4,8,16", "all", or nothing: a node's ranks.
[[nodiscard]] ho::Result<GroupSizeList> parse_group_sizes(const PlanTexts::Text& text,
                                                          const ho::OptionNames& named);

// "site: 64 pods, 400 Gbit/s on each of 256 NICs, 4 to 1; ..", the innermost level first.
[[nodiscard]] std::string levels_text(const PlannerRequest& request);

// Which ranks a group has: "16 neighbouring ranks: 0-15, 16-31, ..; 2 of the 32 nodes of a pod".
[[nodiscard]] std::string groups_text(const PlannerRequest& request);

// The group sizes that were compared, each with its best strategy, and what crosses the outermost
// level; nothing where there was but one.
[[nodiscard]] std::string sizes_text(const Report& report);

}  // namespace paro
