// Which ranks form a group, if not simply the node's: so many that follow one another, or those
// that a file lists. Pure, but for read_groups().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "group/group_map.hpp"

namespace paro {

// Takes the ranks node by node and makes a group of every `size` that follow one another; 0 leaves
// the nodes as they are. Refused where ranks would be left over.
[[nodiscard]] ho::Result<ho::GroupMap> group_by_size(const ho::GroupMap& nodes, uint32_t size);

// One line per group: its ranks, separated by blanks, in the order of their parts. What follows a #
// is a comment; lines without ranks are none. Every rank below `world_size` exactly once. An error
// names the line; `name` is the text's.
[[nodiscard]] ho::Result<ho::GroupMap> parse_groups(std::string_view text,
                                                    uint32_t world_size,
                                                    const std::string& name);

// Such a text from a file of at most 16 MiB.
[[nodiscard]] ho::Result<ho::GroupMap> read_groups(const std::string& path, uint32_t world_size);

}  // namespace paro
