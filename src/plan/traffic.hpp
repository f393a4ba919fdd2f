// How much a plan moves, in exact fractions of a block. Pure arithmetic on ops, for verification,
// printing and cost.
#pragma once

#include <cstdint>
#include <vector>

#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

struct Flow {
  uint64_t out = 0;
  uint64_t in = 0;
};

struct Traffic {
  uint64_t block = 1;                    // the units of one block; every chunk is a whole number
  uint64_t data = 0;                     // the units of all blocks
  std::vector<Flow> boundary;            // of each group: what leaves and enters it
  std::vector<std::vector<Flow>> rails;  // the same by group and rail
  std::vector<Flow> intra;               // of each rank, inside its group
  std::vector<Flow> inter;               // of each rank, between groups
};

// The units of a chunk when a block has `block` units.
[[nodiscard]] uint64_t chunk_units(const Plan& plan, ChunkIndex chunk, uint64_t block);
// The least number of units per block that makes every chunk a whole number.
[[nodiscard]] uint64_t block_units(const Plan& plan);
[[nodiscard]] Traffic measure_traffic(const WholePlan& whole, const GroupMap& map);

}  // namespace ho
