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

// A rank among its group's, by their group ranks, and what writes its ops.
class RankBuilder {
 protected:
  RankBuilder(const GroupMap& map, GlobalRank self, RankPlan& out)
      : map_(map),
        self_(self),
        writer_(map, self, out),
        group_(map.group_of(self)),
        local_(map.group_rank_of(self).value()),
        size_(map.group_size(group_)),
        rails_(map.rail_count()) {}

  [[nodiscard]] bool is_rail(uint32_t local) const { return local < rails_; }
  [[nodiscard]] GlobalRank member(uint32_t local) const {
    return map_.rank_at(group_, GroupRank(local));
  }
  // Peers are visited starting behind or ahead of oneself, so that not all ranks turn to the same.
  [[nodiscard]] uint32_t ahead(uint32_t k) const { return (local_ + k) % size_; }
  [[nodiscard]] uint32_t back(uint32_t k) const { return (local_ + size_ - k) % size_; }

  const GroupMap& map_;
  GlobalRank self_;
  OpWriter writer_;
  GroupIndex group_;
  uint32_t local_;
  uint32_t size_;
  uint32_t rails_;
};

// The blocks of a plan, each of one chunk.
void set_whole_blocks(Plan& plan, uint32_t count);

// Sorts a rank's ops by phase, keeping the order within each, and renumbers their dependencies.
void order_by_phase(RankPlan& mine);

}  // namespace ho
