#include "plan/traffic.hpp"

#include <numeric>

namespace ho {
namespace {

void add(Flow& flow, bool sends, uint64_t units) {
  (sends ? flow.out : flow.in) += units;
}

}  // namespace

uint64_t block_units(const Plan& plan) {
  uint64_t units = 1;
  for (const Chunk& chunk : plan.chunks) {
    units = std::lcm(units, uint64_t{chunk.parts});
  }
  return units;
}

uint64_t chunk_units(const Plan& plan, ChunkIndex chunk, uint64_t block) {
  return block / plan.chunks[chunk.at()].parts;
}

Traffic measure_traffic(const WholePlan& whole, const GroupMap& map) {
  Traffic traffic;
  traffic.block = block_units(whole.plan);
  traffic.data = traffic.block * whole.plan.block_count;
  traffic.boundary.resize(map.group_count());
  traffic.rails.assign(map.group_count(), std::vector<Flow>(map.rail_count()));
  traffic.intra.resize(map.world_size());
  traffic.inter.resize(map.world_size());
  for (uint32_t rank = 0; rank < whole.ranks.size(); ++rank) {
    const size_t group = map.group_of(GlobalRank(rank)).at();
    for (const PlanOp& op : whole.ranks[rank].ops) {
      if (op.kind == OpKind::kCopy) {
        continue;
      }
      const bool sends = op.kind == OpKind::kSend;
      uint64_t units = 0;
      for (const ChunkIndex chunk : op.chunks) {
        units += chunk_units(whole.plan, chunk, traffic.block);
      }
      if (op.lane == Lane::kIntra) {
        add(traffic.intra[rank], sends, units);
        continue;
      }
      add(traffic.inter[rank], sends, units);
      add(traffic.boundary[group], sends, units);
      add(traffic.rails[group][op.rail.at()], sends, units);
    }
  }
  return traffic;
}

}  // namespace ho
