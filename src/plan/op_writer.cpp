#include "plan/op_writer.hpp"

#include <algorithm>
#include <numeric>

namespace ho {

PlanOp& OpWriter::append(OpKind kind,
                         GlobalRank peer,
                         const Chunks& chunks,
                         const std::vector<uint32_t>& deps) {
  PlanOp& op = out_.ops.emplace_back();
  const bool leaves_group = map_.group_of(peer) != map_.group_of(self_);
  op.kind = kind;
  op.lane = leaves_group ? Lane::kInter : Lane::kIntra;
  op.phase = phase_;
  op.step = step_;
  op.peer = peer;
  op.rail = leaves_group ? rail_ : RailIndex();
  op.chunks = chunks;
  op.deps = deps;
  return op;
}

void set_whole_blocks(Plan& plan, uint32_t count) {
  plan.block_count = count;
  for (uint32_t block = 0; block < count; ++block) {
    plan.chunks.push_back({block, 0, 1});
  }
}

void OpWriter::also_after(const std::vector<uint32_t>& earlier) {
  std::vector<uint32_t>& deps = out_.ops.back().deps;
  deps.insert(deps.end(), earlier.begin(), earlier.end());
  std::ranges::sort(deps);
  deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
}

void order_by_phase(RankPlan& mine) {
  std::vector<uint32_t> order(mine.ops.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(
      order, [&](uint32_t a, uint32_t b) { return mine.ops[a].phase < mine.ops[b].phase; });
  std::vector<uint32_t> location(order.size());
  std::vector<PlanOp> sorted;
  sorted.reserve(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    location[order[i]] = i;
    sorted.push_back(std::move(mine.ops[order[i]]));
  }
  for (PlanOp& op : sorted) {
    for (uint32_t& dep : op.deps) {
      dep = location[dep];
    }
  }
  mine.ops = std::move(sorted);
}

}  // namespace ho
