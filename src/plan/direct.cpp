// For small messages, where time is the number of hops and wake-ups, not bytes. Every rank talks to
// its group's leader (group rank 0) through shared memory only; the leaders exchange in as few
// rounds as possible, and each op is one whole message.
//
// All-gather: the leaders double what they hold each round (pairwise where the number of groups is
// a power of two, else Bruck's circle), which takes ceil(log2 groups) rounds. Reduce-scatter is the
// same rounds in reverse: what a round received is now sent, what it sent is added.
// All-reduce: recursive doubling among the largest power of two of leaders; a leader beyond that
// folds its sum into another's and gets the result back. Both partners of a round add the same two
// values, so all leaders hold the same association of the sum: the same bits everywhere.
//
// Broadcast and reduce: a binomial tree over the leaders, whose root is the leader of the root's
// group.
//
// A round never overwrites what it is still sending (values alternate between scratch and output),
// so no rank waits for its own send to be taken before it receives: safe for any message size.
#include <algorithm>
#include <bit>
#include <optional>

#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

using Groups = std::vector<uint32_t>;

// One round of the leaders' all-gather for group `self`.
struct Round {
  uint32_t to = 0;
  uint32_t from = 0;
  Groups out;  // whose blocks are sent
  Groups in;   // whose blocks arrive
};

Groups run_of(uint32_t first, uint32_t count, uint32_t groups) {
  Groups run;
  for (uint32_t i = 0; i < count; ++i) {
    run.push_back((first + i) % groups);
  }
  return run;
}

std::vector<Round> gather_rounds(uint32_t self, uint32_t groups) {
  std::vector<Round> rounds;
  for (uint32_t held = 1; held < groups; held *= 2) {
    if (std::has_single_bit(groups)) {
      const uint32_t partner = self ^ held;
      rounds.push_back({partner,
                        partner,
                        run_of(self & ~(held - 1), held, groups),
                        run_of(partner & ~(held - 1), held, groups)});
    } else {
      const uint32_t count = std::min(held, groups - held);
      const uint32_t from = (self + held) % groups;
      rounds.push_back({(self + groups - held) % groups,
                        from,
                        run_of(self, count, groups),
                        run_of(from, count, groups)});
    }
  }
  return rounds;
}

class Direct {
 public:
  Direct(const GroupMap& map, GlobalRank self, RankPlan& out)
      : map_(map),
        self_(self),
        writer_(map, self, out),
        group_(map.group_of(self).value()),
        groups_(map.group_count()),
        leader_(leader_of(group_)),
        members_(map.members(GroupIndex(group_))) {}

  void all_gather();
  void reduce_scatter();
  void all_reduce();
  void broadcast(GlobalRank root);
  void reduce(GlobalRank root);

 private:
  [[nodiscard]] GlobalRank leader_of(uint32_t group) const {
    return map_.rank_at(GroupIndex(group), GroupRank(0));
  }
  [[nodiscard]] bool leads() const { return self_ == leader_; }
  [[nodiscard]] static Chunks block_of(GlobalRank rank) { return {ChunkIndex(rank.value())}; }
  // One chunk per rank: the blocks of all members of these groups.
  [[nodiscard]] Chunks blocks_of(const Groups& groups) const {
    Chunks chunks;
    for (const uint32_t group : groups) {
      for (const GlobalRank rank : map_.members(GroupIndex(group))) {
        chunks.push_back(ChunkIndex(rank.value()));
      }
    }
    return chunks;
  }
  [[nodiscard]] Chunks all_blocks(std::optional<GlobalRank> but = {}) const {
    Chunks chunks;
    for (uint32_t r = 0; r < map_.world_size(); ++r) {
      if (!but || but->value() != r) {
        chunks.push_back(ChunkIndex(r));
      }
    }
    return chunks;
  }
  // held_[g]: where the blocks of group g lie on a leader, and the ops that brought them there.
  [[nodiscard]] Value held(const Groups& groups) const {
    Value value{held_[groups.front()].space, {}};
    for (const uint32_t group : groups) {
      const auto& writers = held_[group].writers;
      value.writers.insert(value.writers.end(), writers.begin(), writers.end());
    }
    std::ranges::sort(value.writers);
    value.writers.erase(std::unique(value.writers.begin(), value.writers.end()),
                        value.writers.end());
    return value;
  }
  void hold(const Groups& groups, const Value& value) {
    for (const uint32_t group : groups) {
      held_[group] = value;
    }
  }
  Value sum_members(const Chunks& chunks, Space dst, bool complete);
  void lead_reduce_scatter();
  void lead_all_reduce();

  const GroupMap& map_;
  GlobalRank self_;
  OpWriter writer_;
  uint32_t group_;
  uint32_t groups_;
  GlobalRank leader_;
  const std::vector<GlobalRank>& members_;
  std::vector<Value> held_;
};

void Direct::all_gather() {
  const Value own = writer_.copy(block_of(self_), Value{}, Space::kOutput);
  if (!leads()) {
    writer_.send(leader_, block_of(self_), Value{});
    writer_.at(2, 0);
    (void)writer_.recv(leader_, all_blocks(self_), Space::kOutput);
    return;
  }
  held_.resize(groups_);
  held_[group_] = own;
  for (size_t l = 1; l < members_.size(); ++l) {
    const Value got = writer_.recv(members_[l], block_of(members_[l]), Space::kOutput);
    held_[group_].writers.push_back(got.writers.front());
  }
  uint32_t step = 0;
  for (const Round& round : gather_rounds(group_, groups_)) {
    writer_.at(1, step++);
    writer_.send(leader_of(round.to), blocks_of(round.out), held(round.out));
    hold(round.in, writer_.recv(leader_of(round.from), blocks_of(round.in), Space::kOutput));
  }
  writer_.at(2, 0);
  const Value all = held(run_of(0, groups_, groups_));
  for (size_t l = 1; l < members_.size(); ++l) {
    writer_.send(members_[l], all_blocks(members_[l]), all);
  }
}

// The group's sum in group rank order, starting from the leader's own input.
Value Direct::sum_members(const Chunks& chunks, Space dst, bool complete) {
  Value sum;
  for (size_t l = 1; l < members_.size(); ++l) {
    sum = writer_.recv_reduce(members_[l], chunks, sum, dst, complete && l + 1 == members_.size());
  }
  return sum;
}

void Direct::reduce_scatter() {
  if (leads()) {
    lead_reduce_scatter();
    return;
  }
  writer_.send(leader_, all_blocks(), Value{});
  writer_.at(2, 0);
  (void)writer_.recv(leader_, block_of(self_), Space::kOutput);
}

void Direct::lead_reduce_scatter() {
  Value sum = sum_members(all_blocks(), Space::kScratch, groups_ == 1);
  if (members_.size() == 1) {
    sum = writer_.copy(all_blocks(), Value{}, Space::kScratch);
  }
  held_.assign(groups_, sum);
  const std::vector<Round> rounds = gather_rounds(group_, groups_);
  for (size_t i = rounds.size(); i-- > 0;) {
    const Round& round = rounds[i];
    writer_.at(1, static_cast<uint32_t>(rounds.size() - 1 - i));
    writer_.send(leader_of(round.from), blocks_of(round.in), held(round.in));
    hold(round.out,
         writer_.recv_reduce(
             leader_of(round.to), blocks_of(round.out), held(round.out), Space::kScratch, i == 0));
  }
  writer_.at(2, 0);
  const Value result = held({group_});
  for (size_t l = 1; l < members_.size(); ++l) {
    writer_.send(members_[l], block_of(members_[l]), result);
  }
  writer_.copy(block_of(self_), result, Space::kOutput);
}

void Direct::all_reduce() {
  if (leads()) {
    lead_all_reduce();
    return;
  }
  const Chunks data = {ChunkIndex(0)};
  writer_.send(leader_, data, Value{});
  writer_.at(2, 0);
  (void)writer_.recv(leader_, data, Space::kOutput);
}

void Direct::lead_all_reduce() {
  const Chunks data = {ChunkIndex(0)};
  const uint32_t core = std::bit_floor(groups_);
  const auto rounds = static_cast<uint32_t>(std::countr_zero(core));
  const uint32_t fold_steps = groups_ == core ? 0 : 1;
  const bool folds = group_ >= core;             // gives its sum away, gets the result
  const bool absorbs = group_ + core < groups_;  // takes one of those in
  // Values alternate, and the last round must end in the output.
  const Space start = folds || rounds % 2 == 1 ? Space::kScratch : Space::kOutput;
  Value sum = sum_members(data, start, groups_ == 1);
  writer_.at(1, 0);
  if (folds) {
    writer_.send(leader_of(group_ - core), data, sum);
    writer_.at(1, rounds + fold_steps);
    sum = writer_.recv(leader_of(group_ - core), data, Space::kOutput);
  } else {
    if (absorbs) {
      sum = writer_.recv_reduce(leader_of(group_ + core), data, sum, start, false);
    } else if (members_.size() == 1 && start == Space::kScratch) {
      sum = writer_.copy(data, sum, start);
    }
    std::vector<uint32_t> last_send;  // reads what the next round may overwrite
    for (uint32_t k = 0; k < rounds; ++k) {
      writer_.at(1, k + fold_steps);
      const GlobalRank partner = leader_of(group_ ^ (1U << k));
      const uint32_t send = writer_.send(partner, data, sum);
      const Space dst = sum.space == Space::kScratch ? Space::kOutput : Space::kScratch;
      sum = writer_.recv_reduce(partner, data, sum, dst, k + 1 == rounds);
      writer_.also_after(last_send);
      last_send = {send};
    }
    if (absorbs) {
      writer_.at(1, rounds + fold_steps);
      writer_.send(leader_of(group_ + core), data, sum);
    }
  }
  writer_.at(2, 0);
  for (size_t l = 1; l < members_.size(); ++l) {
    writer_.send(members_[l], data, sum);
  }
}

// A binomial tree over the leaders, after the root has handed the data to its own.
void Direct::broadcast(GlobalRank root) {
  const Chunks data = {ChunkIndex(0)};
  const uint32_t root_group = map_.group_of(root).value();
  const uint32_t offset = (group_ + groups_ - root_group) % groups_;  // in the tree, root 0
  const auto leader_at = [&](uint32_t at) { return leader_of((root_group + at) % groups_); };
  Value value;
  if (self_ == root) {
    writer_.copy(data, Value{}, Space::kOutput);
    if (!leads()) {
      writer_.send(leader_, data, value);
    }
  } else if (leads() && offset != 0) {
    const auto round = static_cast<uint32_t>(std::bit_width(offset)) - 1;
    writer_.at(1, round);
    value = writer_.recv(leader_at(offset - (1U << round)), data, Space::kOutput);
  } else {
    writer_.at(leads() ? 0 : 2, 0);
    value = writer_.recv(leads() ? root : leader_, data, Space::kOutput);
  }
  if (!leads()) {
    return;
  }
  for (uint32_t k = static_cast<uint32_t>(std::bit_width(offset)); offset + (1U << k) < groups_;
       ++k) {
    writer_.at(1, k);
    writer_.send(leader_at(offset + (1U << k)), data, value);
  }
  writer_.at(2, 0);
  for (const GlobalRank member : members_) {
    if (member != self_ && member != root) {
      writer_.send(member, data, value);
    }
  }
}

// The broadcast's tree with all messages turned round: leaf leaders first, the root's last.
void Direct::reduce(GlobalRank root) {
  const Chunks data = {ChunkIndex(0)};
  if (!leads()) {
    writer_.send(leader_, data, Value{});
    if (self_ == root) {
      writer_.at(2, 0);
      (void)writer_.recv(leader_, data, Space::kOutput);
    }
    return;
  }
  const Space result = self_ == root ? Space::kOutput : Space::kScratch;
  const uint32_t root_group = map_.group_of(root).value();
  const uint32_t offset = (group_ + groups_ - root_group) % groups_;  // in the tree, root 0
  const auto leader_at = [&](uint32_t at) { return leader_of((root_group + at) % groups_); };
  const auto rounds = static_cast<uint32_t>(std::bit_width(groups_ - 1));
  Value sum = sum_members(data, groups_ == 1 ? result : Space::kScratch, groups_ == 1);
  const auto first_child = static_cast<uint32_t>(std::bit_width(offset));
  for (uint32_t k = rounds; k-- > first_child;) {
    if (offset + (1U << k) < groups_) {
      const bool complete = offset == 0 && k == 0;
      writer_.at(1, rounds - 1 - k);
      sum = writer_.recv_reduce(
          leader_at(offset + (1U << k)), data, sum, complete ? result : Space::kScratch, complete);
    }
  }
  if (offset != 0) {
    writer_.at(1, rounds - first_child);
    writer_.send(leader_at(offset - (1U << (first_child - 1))), data, sum);
  } else if (self_ != root) {
    writer_.at(2, 0);
    writer_.send(root, data, sum);
  }
}

}  // namespace

BuiltPlan build_direct(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  BuiltPlan built;
  built.plan.whole_ops = true;
  set_whole_blocks(
      built.plan,
      static_cast<uint32_t>(blocks_of(request.collective, map.world_size()).value_or(1)));
  built.plan.phase_names = {"to leader", "between leaders", "from leader"};
  built.plan.scratch_chunk_count = has_sums(request.collective) ? built.plan.chunks.size() : 0;
  Direct direct(map, rank, built.mine);
  switch (request.collective) {
    case Collective::kAllGather:
      direct.all_gather();
      break;
    case Collective::kReduceScatter:
      direct.reduce_scatter();
      break;
    case Collective::kAllReduce:
      direct.all_reduce();
      break;
    case Collective::kBroadcast:
      direct.broadcast(request.root);
      break;
    case Collective::kReduce:
      direct.reduce(request.root);
      break;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      break;  // build_routed()
  }
  return built;
}

}  // namespace ho
