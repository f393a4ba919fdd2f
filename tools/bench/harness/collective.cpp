#include "bench/harness/collective.hpp"

#include <algorithm>
#include <numeric>

#include "base/names.hpp"

namespace ho::harness {

std::string_view to_string(Collective collective) {
  constexpr Names<3> kNames{"all_gather", "reduce_scatter", "all_reduce"};
  return name_in(kNames, collective);
}

double bus_factor(Collective collective, uint32_t world_size) {
  const double world = world_size;
  const double once = (world - 1.0) / world;
  return collective == Collective::kAllReduce ? 2.0 * once : once;
}

double boundary_bytes(Collective collective,
                      double size_bytes,
                      const std::vector<uint32_t>& group_sizes) {
  const auto groups = static_cast<double>(group_sizes.size());
  if (group_sizes.size() < 2) {
    return 0.0;
  }
  if (collective == Collective::kAllReduce) {  // divided evenly by group
    return 2.0 * (groups - 1.0) / groups * size_bytes;
  }
  const double ranks = std::accumulate(group_sizes.begin(), group_sizes.end(), 0.0);
  return (ranks - std::ranges::min(group_sizes)) / ranks * size_bytes;
}

}  // namespace ho::harness
