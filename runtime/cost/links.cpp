#include "cost/links.hpp"

#include <algorithm>

namespace paro {
namespace {

// What all but one of `ranks` parts are of the whole.
double all_but_one(double ranks) {
  return (ranks - 1) / ranks;
}

// What flat rings carry over a group's boundary.
double boundary_bytes_per_s(const WorldShape& world, const Links& links) {
  const double rings = links.world == WorldAlgorithm::kMultiRing
                           ? std::clamp<double>(links.nics_per_group, 1, world.group_size)
                           : 1;
  return rings * links.inter_bytes_per_s;
}

}  // namespace

double intra_seconds(double bytes, const WorldShape& world, const Links& links) {
  return all_but_one(world.group_size) * bytes / links.intra_bytes_per_s;
}

double inter_seconds(double bytes, const WorldShape& world, const Links& links) {
  const double nics_per_rank = std::min(links.nics_per_group / world.group_size, 1.0);
  return all_but_one(world.group_count) * bytes / (links.inter_bytes_per_s * nics_per_rank);
}

double world_seconds(double bytes, const WorldShape& world, const Links& links) {
  if (world.group_count == 1) {
    return intra_seconds(bytes, world, links);
  }
  if (links.world != WorldAlgorithm::kHoRing) {
    return all_but_one(world.ranks()) * bytes /
           (rings_wait_inside(world, links) ? links.intra_bytes_per_s
                                            : boundary_bytes_per_s(world, links));
  }
  const double inter = inter_seconds(bytes / world.group_size, world, links);
  const double intra_block = intra_seconds(bytes / world.group_count, world, links);
  return std::max(inter, intra_block * world.group_count) + intra_block;
}

bool rings_wait_inside(const WorldShape& world, const Links& links) {
  return world.group_size > 1 && links.intra_bytes_per_s < boundary_bytes_per_s(world, links);
}

}  // namespace paro
