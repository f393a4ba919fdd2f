// What a running job says of its cluster, as levels. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "cost/text/levels_file.hpp"

namespace ho {

struct MeasuredLink {
  bool between_groups = false;
  double bytes_per_second = 0;
  double round_trip_ns = 0;
};

// Nodes of so many ranks each, with a NIC for each rail. Inside a node the median rate counts, the
// links there being equal but for what the processors do meanwhile; between nodes the slowest,
// which a circle waits for. A message takes half of the median round trip. An error where nodes are
// unequal, or a link carried nothing.
[[nodiscard]] Result<cost::LevelsFile> measured_levels(const std::vector<uint32_t>& group_sizes,
                                                       uint32_t rails,
                                                       const std::vector<MeasuredLink>& links);

}  // namespace ho
