// Pipelined broadcast over rails: the data has one block per rail. The root hands each rail's rank
// in its group that rail's block; each rail passes its block from group to group in a chain, and
// every rail rank sends what it has to the other members of its group. Pieces follow each other
// closely, so a long message costs about its bytes over the sum of the rails, whatever the number
// of groups.
#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

class RailBroadcast : RankBuilder {
 public:
  RailBroadcast(const GroupMap& map, GlobalRank root, GlobalRank self, RankPlan& out)
      : RankBuilder(map, self, out), root_(root) {
    const uint32_t groups = map.group_count();
    hops_ = (group_.value() + groups - map.group_of(root).value()) % groups;
  }

  void run() {
    if (self_ == root_) {
      scatter();
    }
    if (is_rail(local_)) {
      serve_rail();
    }
    if (self_ != root_) {
      receive_others();
    }
  }

 private:
  // The root's part: each other rail of its group gets its block.
  void scatter() {
    for (uint32_t r = 0; r < rails_; ++r) {
      writer_.copy({ChunkIndex(r)}, Value{}, Space::kOutput);
      const GlobalRank server = map_.rail_rank(group_, RailIndex(r));
      if (server != self_) {
        writer_.send(server, {ChunkIndex(r)}, Value{});
      }
    }
  }
  // Gets this rail's block, passes it to the next group, then to the group's members.
  void serve_rail() {
    const ChunkIndex block(local_);
    const RailIndex rail(local_);
    writer_.on_rail(rail);
    Value value;
    if (self_ != root_) {
      writer_.at(0, hops_ == 0 ? 0 : hops_ - 1);
      const GlobalRank from =
          hops_ == 0 ? root_ : map_.rail_rank(map_.group_behind(group_, 1), rail);
      value = writer_.recv(from, {block}, Space::kOutput);
    }
    writer_.at(0, hops_);
    if (hops_ + 1 < map_.group_count()) {
      writer_.send(map_.rail_rank(map_.group_ahead(group_, 1), rail), {block}, value);
    }
    for (uint32_t k = 1; k < size_; ++k) {
      if (member(ahead(k)) != root_) {
        writer_.send(member(ahead(k)), {block}, value);
      }
    }
  }
  // The blocks of the other rails are sent by their ranks in this group.
  void receive_others() {
    writer_.at(0, hops_);
    for (uint32_t k = 1; k < size_; ++k) {
      if (is_rail(back(k))) {
        (void)writer_.recv(member(back(k)), {ChunkIndex(back(k))}, Space::kOutput);
      }
    }
  }

  GlobalRank root_;
  uint32_t hops_ = 0;  // from the root's group to this one
};

}  // namespace

BuiltPlan build_rail_broadcast(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  BuiltPlan built;
  set_whole_blocks(built.plan, map.rail_count());
  built.plan.phase_names = {"broadcast"};
  RailBroadcast(map, request.root, rank, built.mine).run();
  return built;
}

}  // namespace ho
