// Rules 4 and 5 of verify(), chunk by chunk.
//
// Order is judged by what concerns the chunk alone: dependencies and messages that carry it, links
// on which it runs twice, and phase barriers. Pieces of different chunks progress independently, so
// an order that holds only by way of another chunk is not relied on. Both rules are checked twice,
// with the input and output apart and as the same memory.
#include <algorithm>

#include "plan/op_graph.hpp"

namespace ho {
namespace {

// What lies in one place: how often each rank's contribution is in it.
struct Held {
  bool defined = false;
  bool final_sum = false;
  std::vector<uint8_t> counts;
};

// Whether `after` has all that `before` has, and more.
bool grows(const Held& before, const Held& after) {
  bool more = false;
  for (size_t rank = 0; rank < before.counts.size(); ++rank) {
    if (before.counts[rank] > after.counts[rank]) {
      return false;
    }
    more = more || before.counts[rank] < after.counts[rank];
  }
  return more;
}

class ChunkCheck {
 public:
  ChunkCheck(const OpGraph& graph, const GroupMap& map)
      : graph_(graph),
        plan_(graph.whole->plan),
        world_(map.world_size()),
        local_of_(graph.size(), kNoOp),
        last_on_link_(graph.size() + 1, kNoOp) {}

  Status run();

 private:
  static constexpr size_t kSpaces = 3;
  using Ids = std::vector<OpId>;

  [[nodiscard]] std::string text_at(OpId id) const {
    return op_text(*graph_.whole, graph_.rank[id], id - graph_.first[graph_.rank[id]]);
  }
  [[nodiscard]] Status broken(std::string_view rule, std::string message) const {
    return broken_plan(plan_,
                       rule,
                       std::move(message) + " [" + chunk_text(plan_, chunk_) +
                           (in_place_ ? ", in place]" : ", out of place]"));
  }
  Status check_chunk(const Ids& ids);

  // Rule 4.
  void find_order(const Ids& ids);
  void add_before(uint32_t local, OpId earlier);
  [[nodiscard]] bool ordered(uint32_t earlier, uint32_t later) const {
    return (before_[later * words_ + earlier / 64] >> (earlier % 64) & 1) != 0;
  }
  [[nodiscard]] size_t memory(Space space) const {
    return static_cast<size_t>(in_place_ && space == Space::kInput ? Space::kOutput : space);
  }
  [[nodiscard]] bool conflict(const PlanOp& a, const PlanOp& b) const;
  [[nodiscard]] Status check_races(const Ids& ids) const;
  // One of a rank's ops on the chunk against those before it.
  [[nodiscard]] Status check_against_earlier(const Ids& ids,
                                             const std::vector<uint32_t>& mine,
                                             size_t later) const;

  // Rule 5.
  void set_inputs();
  Status run_ops(const Ids& ids);
  Status run_op(uint32_t local, OpId id);
  Status add_incoming(OpId id, const Held& incoming, Held& sum) const;
  [[nodiscard]] Status check_results() const;
  [[nodiscard]] Held& held(uint32_t rank, Space space) {
    return held_[rank * kSpaces + memory(space)];
  }

  const OpGraph& graph_;
  const Plan& plan_;
  uint32_t world_;
  ChunkIndex chunk_;
  BlockRole role_;  // of the chunk's block
  bool in_place_ = false;
  std::vector<uint32_t> local_of_;              // by op: its number among the chunk's ops
  std::vector<uint32_t> last_on_link_;          // by link: likewise
  std::vector<std::vector<uint32_t>> of_rank_;  // likewise, the rank's ops so far
  std::vector<uint64_t> before_;                // by number: a bit for each op known to be earlier
  size_t words_ = 0;
  std::vector<Held> held_;      // by rank and memory
  std::vector<Held> messages_;  // by number of the send
};

Status ChunkCheck::run() {
  std::vector<Ids> ids(plan_.chunks.size());
  for (const OpId id : graph_.in_order) {
    for (const ChunkIndex chunk : graph_.op(id).chunks) {
      ids[chunk.at()].push_back(id);
    }
  }
  for (uint32_t c = 0; c < ids.size(); ++c) {
    chunk_ = ChunkIndex(c);
    role_ = role_of(plan_, plan_.chunks[c].block, world_);
    HORING_TRY(check_chunk(ids[c]));
  }
  return {};
}

Status ChunkCheck::check_chunk(const Ids& ids) {
  for (uint32_t local = 0; local < ids.size(); ++local) {
    local_of_[ids[local]] = local;
  }
  find_order(ids);
  for (const bool in_place : {false, true}) {
    in_place_ = in_place;
    HORING_TRY(check_races(ids));
    HORING_TRY(run_ops(ids));
  }
  for (const OpId id : ids) {
    local_of_[id] = kNoOp;
    last_on_link_[graph_.link[id]] = kNoOp;
  }
  return {};
}

void ChunkCheck::add_before(uint32_t local, OpId earlier) {
  const uint32_t other = earlier == kNoOp ? kNoOp : local_of_[earlier];
  if (other == kNoOp) {
    return;
  }
  for (size_t word = 0; word < words_; ++word) {
    before_[local * words_ + word] |= before_[other * words_ + word];
  }
  before_[local * words_ + other / 64] |= uint64_t{1} << (other % 64);
}

// The ops are in an order in which they can run, so those before an op are complete when it is
// reached.
void ChunkCheck::find_order(const Ids& ids) {
  words_ = (ids.size() + 63) / 64;
  before_.assign(ids.size() * words_, 0);
  of_rank_.assign(world_, {});
  for (uint32_t local = 0; local < ids.size(); ++local) {
    const OpId id = ids[local];
    const PlanOp& op = graph_.op(id);
    for (const uint32_t dep : op.deps) {
      add_before(local, graph_.sibling(id, dep));
    }
    if (op.kind != OpKind::kSend) {
      add_before(local, graph_.partner[id]);
    }
    add_before(local, last_on_link_[graph_.link[id]]);
    last_on_link_[graph_.link[id]] = id;
    auto& mine = of_rank_[graph_.rank[id]];
    for (size_t i = 0; plan_.phase_barrier && i < mine.size(); ++i) {
      if (graph_.op(ids[mine[i]]).phase < op.phase) {
        add_before(local, ids[mine[i]]);
      }
    }
    mine.push_back(local);
  }
}

bool ChunkCheck::conflict(const PlanOp& a, const PlanOp& b) const {
  const auto skipped = [&](const PlanOp& op) {  // a copy of a place onto itself
    return op.kind == OpKind::kCopy && memory(op.src) == memory(op.dst);
  };
  const auto writes = [&](const PlanOp& op, size_t space) {
    return op.kind != OpKind::kSend && memory(op.dst) == space;
  };
  const auto reads = [&](const PlanOp& op, size_t space) {
    return op.kind != OpKind::kRecv && memory(op.src) == space;
  };
  if (skipped(a) || skipped(b)) {
    return false;
  }
  for (size_t space = 0; space < kSpaces; ++space) {
    if ((writes(a, space) && (writes(b, space) || reads(b, space))) ||
        (reads(a, space) && writes(b, space))) {
      return true;
    }
  }
  return false;
}

Status ChunkCheck::check_races(const Ids& ids) const {
  for (const auto& mine : of_rank_) {
    for (size_t later = 1; later < mine.size(); ++later) {
      if (Status status = check_against_earlier(ids, mine, later); !status.ok()) {
        return status;
      }
    }
  }
  return {};
}

Status ChunkCheck::check_against_earlier(const Ids& ids,
                                         const std::vector<uint32_t>& mine,
                                         size_t later) const {
  const OpId id = ids[mine[later]];
  for (size_t i = 0; i < later; ++i) {
    const OpId other = ids[mine[i]];
    if (!ordered(mine[i], mine[later]) && conflict(graph_.op(other), graph_.op(id))) {
      return broken(
          "race",
          text_at(other) + " and " + text_at(id) + " touch the same memory in no fixed order");
    }
  }
  return {};
}

void ChunkCheck::set_inputs() {
  held_.assign(world_ * kSpaces, {});
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!role_.in_input(GlobalRank(rank))) {
      continue;
    }
    Held& input = held(rank, Space::kInput);
    input.defined = true;
    input.counts.assign(world_, 0);
    input.counts[rank] = 1;
  }
}

Status ChunkCheck::run_ops(const Ids& ids) {
  set_inputs();
  messages_.assign(ids.size(), {});
  for (uint32_t local = 0; local < ids.size(); ++local) {
    HORING_TRY(run_op(local, ids[local]));
  }
  return check_results();
}

Status ChunkCheck::run_op(uint32_t local, OpId id) {
  const PlanOp& op = graph_.op(id);
  const uint32_t rank = graph_.rank[id];
  Held& target = held(rank, op.dst);
  if (op.kind != OpKind::kRecv && !held(rank, op.src).defined) {
    return broken("contributions", text_at(id) + " reads a place that holds nothing yet");
  }
  if (op.kind == OpKind::kSend) {
    messages_[local] = held(rank, op.src);
    return {};
  }
  if (op.kind == OpKind::kRecvReduce) {
    Held sum = held(rank, op.src);
    HORING_TRY(add_incoming(id, messages_[local_of_[graph_.partner[id]]], sum));
    if (target.defined && !grows(target, sum)) {
      return broken("contributions", text_at(id) + " replaces a sum by one that is no larger");
    }
    target = std::move(sum);
    return {};
  }
  if (target.defined && !in_place_) {
    return broken("contributions", text_at(id) + " overwrites what has been put there before");
  }
  target = op.kind == OpKind::kCopy ? Held(held(rank, op.src))
                                    : messages_[local_of_[graph_.partner[id]]];
  return {};
}

Status ChunkCheck::add_incoming(OpId id, const Held& incoming, Held& sum) const {
  bool complete = true;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    sum.counts[rank] = static_cast<uint8_t>(sum.counts[rank] + incoming.counts[rank]);
    if (sum.counts[rank] > 1) {
      return broken("contributions",
                    text_at(id) + " adds the contribution of rank " + std::to_string(rank) +
                        " a second time");
    }
    complete = complete && sum.counts[rank] == 1;
  }
  sum.final_sum = graph_.op(id).final_sum;
  if (complete != sum.final_sum) {
    return broken("contributions",
                  text_at(id) + (complete ? " completes the sum but is not marked final"
                                          : " is marked final but its sum is not complete"));
  }
  return {};
}

Status ChunkCheck::check_results() const {
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!role_.in_output(GlobalRank(rank))) {
      continue;
    }
    const Held& result = held_[rank * kSpaces + static_cast<size_t>(Space::kOutput)];
    const std::string where = "rank " + std::to_string(rank) + " ends with ";
    if (!result.defined) {
      return broken("contributions", where + "nothing in its output");
    }
    for (uint32_t from = 0; from < world_; ++from) {
      const uint32_t want = role_.in_input(GlobalRank(from)) ? 1 : 0;
      if (result.counts[from] != want) {
        return broken("contributions",
                      where + "the contribution of rank " + std::to_string(from) + " " +
                          std::to_string(result.counts[from]) + " times instead of " +
                          std::to_string(want));
      }
    }
    if (role_.is_sum() && world_ > 1 && !result.final_sum) {
      return broken("contributions", where + "a sum that was never marked final");
    }
  }
  return {};
}

}  // namespace

Status check_chunks(const OpGraph& graph, const GroupMap& map) {
  return ChunkCheck(graph, map).run();
}

}  // namespace ho
