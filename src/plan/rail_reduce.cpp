// Pipelined reduce over rails, the mirror image of rail_broadcast: the data has one block per rail.
// Inside each group the members send their blocks to the rails' ranks, which add them in one fixed
// order. Each rail then passes its block from group to group in a chain that ends in the root's
// group; each group adds its sum. The root collects the blocks from the rails of its group. Pieces
// follow each other closely, so a long message costs about its bytes over the sum of the rails,
// whatever the number of groups.
#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

class RailReduce : RankBuilder {
 public:
  RailReduce(const GroupMap& map, GlobalRank root, GlobalRank self, RankPlan& out)
      : RankBuilder(map, self, out), root_(root) {
    const uint32_t groups = map.group_count();
    hops_ = (group_.value() + groups - map.group_of(root).value()) % groups;
    step_ = groups - 1 - hops_;
  }

  void run() {
    contribute();
    if (is_rail(local_)) {
      serve_rail();
    }
    if (self_ == root_) {
      collect();
    }
  }

 private:
  // This rank's part of the sums of the group's other rails.
  void contribute() {
    writer_.at(0, step_);
    for (uint32_t k = 1; k < size_; ++k) {
      if (is_rail(ahead(k))) {
        writer_.send(member(ahead(k)), {ChunkIndex(ahead(k))}, Value{});
      }
    }
  }
  // Adds the group's blocks and what comes along the rail, and passes the sum on.
  void serve_rail() {
    const Chunks block = {ChunkIndex(local_)};
    const RailIndex rail(local_);
    const bool last_group = hops_ + 1 == map_.group_count();
    writer_.on_rail(rail);
    Value sum;
    for (uint32_t k = 1; k < size_; ++k) {
      const bool complete = hops_ == 0 && last_group && k + 1 == size_;
      sum = add(member(back(k)), sum, complete);
    }
    if (!last_group) {
      writer_.at(0, step_ - 1);
      sum = add(map_.rail_rank(map_.group_ahead(group_, 1), rail), sum, hops_ == 0);
    }
    writer_.at(0, step_);
    if (hops_ > 0) {
      writer_.send(map_.rail_rank(map_.group_behind(group_, 1), rail), block, sum);
    } else if (self_ != root_) {
      writer_.send(root_, block, sum);
    }
  }
  Value add(GlobalRank peer, const Value& sum, bool complete) {
    const Space dst = complete && self_ == root_ ? Space::kOutput : Space::kScratch;
    return writer_.recv_reduce(peer, {ChunkIndex(local_)}, sum, dst, complete);
  }
  void collect() {
    for (uint32_t rail = 0; rail < rails_; ++rail) {
      if (rail != local_) {
        (void)writer_.recv(member(rail), {ChunkIndex(rail)}, Space::kOutput);
      }
    }
  }

  GlobalRank root_;
  uint32_t hops_ = 0;  // from this group to the root's
  uint32_t step_ = 0;  // in which this group sends; the farthest is first
};

}  // namespace

BuiltPlan build_rail_reduce(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  BuiltPlan built;
  set_whole_blocks(built.plan, map.rail_count());
  built.plan.phase_names = {"reduce"};
  built.plan.scratch_chunk_count = 1;
  RailReduce(map, request.root, rank, built.mine).run();
  return built;
}

}  // namespace ho
