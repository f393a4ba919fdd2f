// How builders write one rank's ops: every call appends one op and answers where the value now
// lies, so that the next op's dependency follows from the value it reads.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

using Chunks = std::vector<ChunkIndex>;

// Where a value lies and the ops (of this rank) that made it; none for the caller's own input.
struct Value {
  Space space = Space::kInput;
  std::vector<uint32_t> writers;
};

class OpWriter {
 public:
  OpWriter(const GroupMap& map, GlobalRank self, RankPlan& out)
      : map_(map), self_(self), out_(out) {}

  // The phase and step, and the rail of messages that leave the group, of the ops that follow.
  void at(uint16_t phase, uint32_t step) {
    phase_ = phase;
    step_ = step;
  }
  void on_rail(RailIndex rail) { rail_ = rail; }

  // The index of the new op.
  uint32_t send(GlobalRank peer, const Chunks& chunks, const Value& value) {
    PlanOp& op = append(OpKind::kSend, peer, chunks, value.writers);
    op.src = value.space;
    op.dst = value.space;
    return last();
  }
  [[nodiscard]] Value recv(GlobalRank peer, const Chunks& chunks, Space dst) {
    PlanOp& op = append(OpKind::kRecv, peer, chunks, {});
    op.src = dst;
    op.dst = dst;
    return {dst, {last()}};
  }
  [[nodiscard]] Value recv_reduce(
      GlobalRank peer, const Chunks& chunks, const Value& value, Space dst, bool final_sum) {
    PlanOp& op = append(OpKind::kRecvReduce, peer, chunks, value.writers);
    op.src = value.space;
    op.dst = dst;
    op.final_sum = final_sum;
    return {dst, {last()}};
  }
  Value copy(const Chunks& chunks, const Value& value, Space dst) {
    PlanOp& op = append(OpKind::kCopy, self_, chunks, value.writers);
    op.src = value.space;
    op.dst = dst;
    return {dst, {last()}};
  }
  // Makes the newest op wait for `earlier` as well.
  void also_after(const std::vector<uint32_t>& earlier);

 private:
  PlanOp& append(OpKind kind,
                 GlobalRank peer,
                 const Chunks& chunks,
                 const std::vector<uint32_t>& deps);
  [[nodiscard]] uint32_t last() const { return static_cast<uint32_t>(out_.ops.size()) - 1; }

  const GroupMap& map_;
  GlobalRank self_;
  RankPlan& out_;
  uint16_t phase_ = 0;
  uint32_t step_ = 0;
  RailIndex rail_;
};

// Sorts a rank's ops by phase, keeping the order within each, and renumbers their dependencies.
void order_by_phase(RankPlan& mine);

}  // namespace ho
