// Flat rings, one per NIC: every block is cut into as many parts as there are rings, and ring k
// carries part k. All rings visit the groups in the same order; inside a group ring k enters at the
// rank with group rank k (modulo the group's size) and leaves at the rank before it, so that each
// ring crosses each group boundary on a NIC of its own.
//
// All-gather: in step s a rank passes on the chunk it received in step s - 1, starting with its
// own. Reduce-scatter: the same circle, with the chunk that ends at position p starting at p + 1
// and growing by one contribution per hop. All-reduce: one after the other, chunk by chunk.
#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

// Ring k's ranks in ring order, and this rank's position in it.
struct FlatRing {
  std::vector<GlobalRank> order;
  uint32_t position = 0;

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(order.size()); }
  // `steps` back from this rank's position; steps at most size.
  [[nodiscard]] GlobalRank behind(uint32_t steps) const {
    return order[(position + size() - steps) % size()];
  }
  [[nodiscard]] GlobalRank next() const { return order[(position + 1) % size()]; }
  [[nodiscard]] GlobalRank previous() const { return behind(1); }
};

FlatRing make_ring(const GroupMap& map, uint32_t ring, GlobalRank self) {
  FlatRing result;
  result.order.reserve(map.world_size());
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    const auto& members = map.members(GroupIndex(g));
    for (size_t i = 0; i < members.size(); ++i) {
      const GlobalRank rank = members[(ring + i) % members.size()];
      if (rank == self) {
        result.position = static_cast<uint32_t>(result.order.size());
      }
      result.order.push_back(rank);
    }
  }
  return result;
}

class MultiRing {
 public:
  MultiRing(const GroupMap& map, uint32_t ring_count, GlobalRank self, RankPlan& out)
      : self_(self), writer_(map, self, out) {
    for (uint32_t k = 0; k < ring_count; ++k) {
      rings_.push_back(make_ring(map, k, self));
    }
  }

  void copy_own() {
    for (uint32_t k = 0; k < rings_.size(); ++k) {
      writer_.copy({chunk(self_, k)}, Value{}, Space::kOutput);
    }
  }

  // Starts from own[k], the value of this rank's chunk of ring k.
  void all_gather(uint16_t phase, std::vector<Value> have) {
    for (uint32_t s = 0; s + 1 < rings_[0].size(); ++s) {
      writer_.at(phase, s);
      for (uint32_t k = 0; k < rings_.size(); ++k) {
        const FlatRing& ring = rings_[k];
        writer_.on_rail(RailIndex(k));
        writer_.send(ring.next(), {chunk(ring.behind(s), k)}, have[k]);
        have[k] = writer_.recv(ring.previous(), {chunk(ring.behind(s + 1), k)}, Space::kOutput);
      }
    }
  }

  // The final sum of this rank's chunk of each ring.
  std::vector<Value> reduce_scatter(uint16_t phase) {
    std::vector<Value> have(rings_.size());
    const uint32_t steps = rings_[0].size() - 1;
    for (uint32_t s = 0; s < steps; ++s) {
      writer_.at(phase, s);
      for (uint32_t k = 0; k < rings_.size(); ++k) {
        const FlatRing& ring = rings_[k];
        const bool last = s + 1 == steps;
        writer_.on_rail(RailIndex(k));
        writer_.send(ring.next(), {chunk(ring.behind(s + 1), k)}, have[k]);
        have[k] = writer_.recv_reduce(ring.previous(),
                                      {chunk(ring.behind(s + 2), k)},
                                      Value{},
                                      last ? Space::kOutput : Space::kScratch,
                                      last);
      }
    }
    return have;
  }

  [[nodiscard]] std::vector<Value> inputs() const { return std::vector<Value>(rings_.size()); }

 private:
  [[nodiscard]] ChunkIndex chunk(GlobalRank owner, uint32_t ring) const {
    return ChunkIndex(owner.at() * rings_.size() + ring);
  }

  GlobalRank self_;
  OpWriter writer_;
  std::vector<FlatRing> rings_;
};

}  // namespace

BuiltPlan build_multi_ring(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  BuiltPlan built;
  built.plan.block_count = map.world_size();
  for (uint32_t block = 0; block < map.world_size(); ++block) {
    for (uint32_t k = 0; k < request.ring_count; ++k) {
      built.plan.chunks.push_back({block, k, request.ring_count});
    }
  }
  built.plan.scratch_chunk_count = has_sums(request.collective) ? built.plan.chunks.size() : 0;
  MultiRing rings(map, request.ring_count, rank, built.mine);
  switch (request.collective) {
    case Collective::kReduceScatter:
      built.plan.phase_names = {"reduce_scatter"};
      (void)rings.reduce_scatter(0);
      break;
    case Collective::kAllReduce:
      built.plan.phase_names = {"reduce_scatter", "all_gather"};
      rings.all_gather(1, rings.reduce_scatter(0));
      break;
    default:  // all-gather; build.cpp sends no other here
      built.plan.phase_names = {"all_gather"};
      rings.copy_own();
      rings.all_gather(0, rings.inputs());
      break;
  }
  return built;
}

}  // namespace ho
