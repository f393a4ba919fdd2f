#include "exec/schedule.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace ho {
namespace {

// Work between groups first: it is what everything else hides behind.
int urgency(const QueueLayout& queue) {
  if (queue.link == nullptr) {
    return 4;
  }
  return (queue.lane == Lane::kInter ? 0 : 2) + (queue.sends ? 0 : 1);
}

std::vector<std::vector<uint32_t>> scratch_guards(const RankPlan& mine, size_t chunk_count) {
  std::vector<std::vector<uint32_t>> readers(chunk_count);
  for (uint32_t i = 0; i < mine.ops.size(); ++i) {
    const PlanOp& op = mine.ops[i];
    if (op.src == Space::kScratch && op.kind != OpKind::kRecv) {
      for (const ChunkIndex chunk : op.chunks) {
        readers[chunk.at()].push_back(i);
      }
    }
  }
  std::vector<std::vector<uint32_t>> guards(mine.ops.size());
  for (size_t i = 0; i < mine.ops.size(); ++i) {
    const PlanOp& op = mine.ops[i];
    const bool writes_scratch = op.dst == Space::kScratch && op.kind != OpKind::kSend;
    const bool starts = writes_scratch && (op.kind == OpKind::kRecv || op.src != Space::kScratch);
    if (starts) {
      for (const ChunkIndex chunk : op.chunks) {
        guards[i].insert(guards[i].end(), readers[chunk.at()].begin(), readers[chunk.at()].end());
      }
    }
  }
  return guards;
}

}  // namespace

Result<std::shared_ptr<const Schedule>> make_schedule(BuiltPlan built,
                                                      const LinkResolver& link_of) {
  auto schedule = std::make_shared<Schedule>();
  using Key = std::tuple<bool, Lane, RailIndex, GlobalRank, bool>;
  std::map<Key, size_t> queue_of;
  for (uint32_t i = 0; i < built.mine.ops.size(); ++i) {
    const PlanOp& op = built.mine.ops[i];
    const bool local = op.kind == OpKind::kCopy;
    const bool sends = op.kind == OpKind::kSend;
    const Key key = local ? Key{true, Lane::kIntra, RailIndex(), GlobalRank(), false}
                          : Key{false, op.lane, op.rail, op.peer, sends};
    const auto [entry, fresh] = queue_of.emplace(key, schedule->queues.size());
    if (fresh) {
      QueueLayout queue;
      queue.sends = sends;
      queue.lane = op.lane;
      queue.rail = op.rail;
      queue.peer = op.peer;
      if (!local) {
        HORING_ASSIGN(queue.link, link_of(op.peer, op.lane, op.rail));
        queue.over_network = queue.link->over_network();
      }
      schedule->queues.push_back(std::move(queue));
    }
    schedule->queues[entry->second].ops.push_back(i);
    schedule->phase_count = std::max<uint32_t>(schedule->phase_count, op.phase + 1U);
    uint32_t& steps = schedule->step_count.at(static_cast<size_t>(op.lane));
    steps = std::max<uint32_t>(steps, op.step + 1U);
  }
  std::ranges::stable_sort(schedule->queues, [](const QueueLayout& a, const QueueLayout& b) {
    return urgency(a) < urgency(b);
  });
  schedule->readers_before = scratch_guards(built.mine, built.plan.chunks.size());
  schedule->built = std::move(built);
  return std::shared_ptr<const Schedule>(std::move(schedule));
}

}  // namespace ho
