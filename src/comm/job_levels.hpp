// The links under a job as levels (cost/cluster.hpp), from HORING_LEVELS_FILE: of which all ranks
// have the same, or no communicator is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "comm/selection.hpp"
#include "cost/cluster.hpp"
#include "exec/binding.hpp"
#include "group/group_map.hpp"
#include "topo/rank_info.hpp"

namespace ho {

// What this rank has. Nothing where no file is named, or HORING_DIRECT_MAX_BYTES is set, which
// counts before it.
struct NamedLevels {
  std::string path;
  cost::Cluster levels;
};
// An error with file, field and value where the file cannot be used.
[[nodiscard]] Result<std::optional<NamedLevels>> levels_from_environment();
// What ranks compare of it: "sizes 8, 16; rates 450GB, 50GB; ..".
[[nodiscard]] Setting setting_of(const std::optional<NamedLevels>& named);

// The levels with where in them each rank of a communicator is.
struct JobLevels {
  std::shared_ptr<const cost::Cluster> levels;
  size_t group_levels = 1;          // inside a group
  std::vector<uint64_t> positions;  // by rank
};
// Groups follow one another as the map has them. An error that begins with the file's path where
// the levels hold another number of ranks, or no level ends where groups do.
[[nodiscard]] Result<JobLevels> levels_under(const NamedLevels& named, const GroupMap& map);
// What those of these ranks have, for `auto`; nothing where some units have more of them than
// others.
[[nodiscard]] std::optional<ModelledLevels> modelled_levels(const JobLevels& job,
                                                            const BindingLimits& limits);

}  // namespace ho
