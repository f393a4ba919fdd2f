// Valid plans, broken in every way: verify() must reject each break that changes what a plan does.
// The few that provably change nothing are recognised here by rules of their own and counted.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "catch.hpp"
#include "plan/plan.hpp"
#include "plan/verify.hpp"
#include "shapes.hpp"

using namespace ho;

namespace {

// A small generator, the same everywhere, so that a failure can be repeated.
class Choice {
 public:
  explicit Choice(uint64_t seed) : state_(seed * 2654435761U + 1) {}
  uint32_t below(size_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<uint32_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_;
};

enum class Break : uint8_t {
  kDropOp,
  kDuplicateOp,
  kChangeChunk,
  kDropDep,
  kSwapOnLink,
  kChangePeer,
  kChangeSource,
  kChangeTarget,
  kFlipFinal,
  kChangeKind,
  kChangeRail,
  kDropMessage,
  kDuplicateMessage,
  kCount,
};

struct Mutant {
  WholePlan plan;
  bool changed = false;         // something was there to break
  bool harmless = false;        // and it provably makes no difference
  bool maybe_harmless = false;  // the values are the same, but the order may now be open
  std::string what;
};

bool same_link(const PlanOp& a, const PlanOp& b) {
  return (a.kind == OpKind::kSend) == (b.kind == OpKind::kSend) && a.peer == b.peer &&
         a.lane == b.lane && a.rail == b.rail && a.kind != OpKind::kCopy && b.kind != OpKind::kCopy;
}

// Removes an op; whoever waited for it then waits for nothing in its place.
void erase_op(RankPlan& rank, uint32_t index) {
  rank.ops.erase(rank.ops.begin() + index);
  for (PlanOp& op : rank.ops) {
    std::erase(op.deps, index);
    for (uint32_t& dep : op.deps) {
      dep -= dep > index ? 1U : 0U;
    }
  }
}

// Whether the rank's op `later` still waits for `earlier` through other deps or phase barriers.
bool still_waits(const WholePlan& plan, uint32_t rank, uint32_t earlier, uint32_t later) {
  const auto& ops = plan.ranks[rank].ops;
  std::set<uint32_t> open = {later};
  while (!open.empty()) {
    const uint32_t at = *open.begin();
    open.erase(open.begin());
    if (at == earlier || (plan.plan.phase_barrier && ops[earlier].phase < ops[at].phase)) {
      return true;
    }
    open.insert(ops[at].deps.begin(), ops[at].deps.end());
  }
  return false;
}

// The place of the message that op `index` sends among those of its link, to find its receive.
std::optional<uint32_t> matching_recv(const WholePlan& plan, uint32_t rank, uint32_t index) {
  const PlanOp& send = plan.ranks[rank].ops[index];
  uint32_t nth = 0;
  for (uint32_t i = 0; i < index; ++i) {
    nth += same_link(plan.ranks[rank].ops[i], send) ? 1U : 0U;
  }
  const auto& ops = plan.ranks[send.peer.at()].ops;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const bool receives = ops[i].kind == OpKind::kRecv || ops[i].kind == OpKind::kRecvReduce;
    if (receives && ops[i].peer.value() == rank && ops[i].rail == send.rail && nth-- == 0) {
      return i;
    }
  }
  return std::nullopt;
}

template <typename Enum>
Enum another(Choice& choice, Enum value, uint32_t count) {
  return static_cast<Enum>((static_cast<uint32_t>(value) + 1 + choice.below(count - 1)) % count);
}

void drop_dep(Mutant& mutant, uint32_t rank, uint32_t index, Choice& choice) {
  auto& deps = mutant.plan.ranks[rank].ops[index].deps;
  if (deps.empty()) {
    return;
  }
  const uint32_t at = choice.below(deps.size());
  const uint32_t dep = deps[at];
  deps.erase(deps.begin() + at);
  mutant.changed = true;
  const auto& ops = mutant.plan.ranks[rank].ops;
  const bool share_chunk = std::find_first_of(ops[dep].chunks.begin(),
                                              ops[dep].chunks.end(),
                                              ops[index].chunks.begin(),
                                              ops[index].chunks.end()) != ops[dep].chunks.end();
  mutant.harmless = !share_chunk || still_waits(mutant.plan, rank, dep, index);
}

// Exchanges what two ops of one link carry.
void swap_on_link(Mutant& mutant, uint32_t rank, uint32_t index) {
  auto& ops = mutant.plan.ranks[rank].ops;
  for (uint32_t later = index + 1; later < ops.size(); ++later) {
    if (same_link(ops[index], ops[later]) && ops[index].chunks != ops[later].chunks) {
      std::swap(ops[index].chunks, ops[later].chunks);
      mutant.changed = true;
      return;
    }
  }
}

// A whole message, at both ends.
void break_message(Mutant& mutant, uint32_t rank, uint32_t index, bool drop) {
  PlanOp& send = mutant.plan.ranks[rank].ops[index];
  if (send.kind != OpKind::kSend) {
    return;
  }
  const auto recv = matching_recv(mutant.plan, rank, index);
  const uint32_t peer = send.peer.value();
  if (!recv) {
    return;
  }
  mutant.changed = true;
  if (drop) {
    erase_op(mutant.plan.ranks[rank], index);
    erase_op(mutant.plan.ranks[peer], *recv);
    return;
  }
  const PlanOp again = send;
  const PlanOp matching = mutant.plan.ranks[peer].ops[*recv];
  mutant.plan.ranks[rank].ops.push_back(again);
  mutant.plan.ranks[peer].ops.push_back(matching);
}

void change_peer(Mutant& mutant, PlanOp& op, Choice& choice) {
  if (op.kind == OpKind::kCopy) {
    return;
  }
  const auto world = static_cast<uint32_t>(mutant.plan.ranks.size());
  op.peer = GlobalRank(another(choice, op.peer.value(), world));
  mutant.changed = true;
}

// Where a copy of the chunk lies in the new place, it makes no difference which is read, provided
// that the copy is known to have been made (else it is a race, which verify() has to see).
void change_source(Mutant& mutant, uint32_t rank, uint32_t index, Choice& choice) {
  const auto& ops = mutant.plan.ranks[rank].ops;
  PlanOp& op = mutant.plan.ranks[rank].ops[index];
  if (op.kind == OpKind::kRecv) {
    return;
  }
  const Space old = op.src;
  op.src = another(choice, op.src, 3);
  mutant.changed = true;
  mutant.maybe_harmless = std::any_of(ops.begin(), ops.end(), [&](const PlanOp& copy) {
    return copy.kind == OpKind::kCopy &&
           ((copy.src == old && copy.dst == op.src) || (copy.dst == old && copy.src == op.src));
  });
}

void change_target(Mutant& mutant, PlanOp& op, Choice& choice) {
  if (op.kind == OpKind::kSend) {
    return;
  }
  op.dst = another(choice, op.dst, 3);
  mutant.changed = true;
}

Mutant mutate(const WholePlan& valid, Break how, Choice& choice) {
  Mutant mutant{valid, false, false, false, {}};
  const uint32_t rank = choice.below(valid.ranks.size());
  auto& ops = mutant.plan.ranks[rank].ops;
  const uint32_t index = choice.below(ops.size());
  PlanOp& op = ops[index];
  mutant.what = "rank " + std::to_string(rank) + " op " + std::to_string(index);
  switch (how) {
    case Break::kDropOp:
      mutant.changed = true;
      erase_op(mutant.plan.ranks[rank], index);
      break;
    case Break::kDuplicateOp:
      mutant.changed = true;
      ops.push_back(PlanOp(op));
      break;
    case Break::kChangeChunk:
      if (valid.plan.chunks.size() > 1) {
        mutant.changed = true;
        op.chunks[choice.below(op.chunks.size())] =
            ChunkIndex(choice.below(valid.plan.chunks.size() + 1));
        mutant.harmless = op.chunks == valid.ranks[rank].ops[index].chunks;
      }
      break;
    case Break::kDropDep:
      drop_dep(mutant, rank, index, choice);
      break;
    case Break::kSwapOnLink:
      swap_on_link(mutant, rank, index);
      break;
    case Break::kChangePeer:
      change_peer(mutant, op, choice);
      break;
    case Break::kChangeSource:
      change_source(mutant, rank, index, choice);
      break;
    case Break::kChangeTarget:
      change_target(mutant, op, choice);
      break;
    case Break::kFlipFinal:
      mutant.changed = true;
      op.final_sum = !op.final_sum;
      break;
    case Break::kChangeKind:
      mutant.changed = true;
      op.kind = another(choice, op.kind, 4);
      break;
    case Break::kChangeRail:
      if (op.kind != OpKind::kCopy) {
        mutant.changed = true;
        op.rail = RailIndex(op.rail.value() + 1);
      }
      break;
    case Break::kDropMessage:
      break_message(mutant, rank, index, true);
      break;
    case Break::kDuplicateMessage:
      break_message(mutant, rank, index, false);
      break;
    case Break::kCount:
      break;
  }
  return mutant;
}

struct Tally {
  std::map<Break, uint32_t> rejected;
  std::map<Break, uint32_t> harmless;
  uint64_t seed = 0;
};

void try_breaks(const GroupMap& map, const PlanRequest& request, Tally& tally) {
  const WholePlan valid = build_whole_plan(map, request).value();
  for (uint32_t round = 0; round < 25 * static_cast<uint32_t>(Break::kCount); ++round) {
    Choice choice(++tally.seed);
    const auto how = static_cast<Break>(round / 25);
    const Mutant mutant = mutate(valid, how, choice);
    if (!mutant.changed) {
      continue;
    }
    const bool accepted = verify(mutant.plan, map).ok();
    INFO(map.to_string() << " " << to_string(request.collective) << " "
                         << to_string(request.algorithm) << ", break " << round / 25 << ", "
                         << mutant.what);
    CHECK((mutant.maybe_harmless || accepted == mutant.harmless));
    ++(accepted ? tally.harmless : tally.rejected)[how];
  }
}

}  // namespace

TEST_CASE("every break that changes a plan is rejected") {
  Tally tally;
  for (const char* text : {"2x2", "3x3", "1+3", "3x1", "1x4", "3+5+1", "2+4"}) {
    const GroupMap map = GroupMap::parse(text).value();
    for (uint8_t i = 0; i < kCollectiveCount * kAlgorithmCount; ++i) {
      const auto collective = static_cast<Collective>(i / kAlgorithmCount);
      const auto algorithm = static_cast<Algorithm>(i % kAlgorithmCount);
      try_breaks(map, {collective, algorithm, map.rail_count(), GlobalRank(1)}, tally);
    }
  }
  for (uint8_t b = 0; b < static_cast<uint8_t>(Break::kCount); ++b) {
    INFO("break " << int{b});
    CHECK(tally.rejected[static_cast<Break>(b)] > 100);
  }
  for (const auto& [how, count] : tally.harmless) {
    INFO("break " << int{static_cast<uint8_t>(how)} << ": " << count);
    CHECK((how == Break::kDropDep || how == Break::kChangeChunk || how == Break::kChangeSource));
  }
}
