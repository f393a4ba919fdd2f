#include "cost/links.hpp"

#include <algorithm>

namespace paro {
namespace {

// What all but one of `ranks` parts are of the whole.
double all_but_one(double ranks) {
  return (ranks - 1) / ranks;
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
  if (links.world == WorldAlgorithm::kRing) {
    const double slowest = world.group_size == 1
                               ? links.inter_bytes_per_s
                               : std::min(links.inter_bytes_per_s, links.intra_bytes_per_s);
    return all_but_one(world.ranks()) * bytes / slowest;
  }
  const double inter = inter_seconds(bytes / world.group_size, world, links);
  const double intra_block = intra_seconds(bytes / world.group_count, world, links);
  return std::max(inter, intra_block * world.group_count) + intra_block;
}

}  // namespace paro
