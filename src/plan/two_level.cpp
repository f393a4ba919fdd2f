// The two-level ring, overlapped (ho_ring) and one level after the other (hierarchical).
//
// The ranks of equal group rank form a rail, a ring over the groups; each rail's NIC carries only
// what must cross a group boundary, and each block crosses each boundary once. All-gather: in step
// s a rail's rank in group g passes the blocks of group g - s on to group g + 1. Whatever arrives
// is at once sent through shared memory to the group's other ranks, directly to each: no rank there
// waits for a neighbour, and the network lane never waits for the memory lane. Reduce-scatter is
// the mirror image: the block that ends in group d starts in group d + 1 and collects one group's
// sum per hop; that sum is formed in shared memory ahead of its turn. Sums are added in an order
// fixed by dependencies, so results repeat bit for bit. All-reduce cuts the data by group and rail
// and is one after the other, piece by piece.
//
// There are as many rails as the NICs can use, at most the ranks of the smallest group. The block
// of a rank beyond those is cut into one part per rail, so that all rails of a group carry the
// same.
//
// hierarchical moves the same chunks along the same paths, but each phase waits for the one before:
// what the overlap is measured against.
#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

// The phase numbers of each lane's half; all equal where the lanes overlap.
struct Phases {
  uint16_t sum_intra = 0;
  uint16_t sum_inter = 0;
  uint16_t gather_inter = 0;
  uint16_t gather_intra = 0;
};

Phases set_phases(Plan& plan, const PlanRequest& request) {
  const bool sums = request.collective != Collective::kAllGather;
  const bool gathers = request.collective != Collective::kReduceScatter;
  if (request.algorithm != Algorithm::kHierarchical) {
    if (sums) {
      plan.phase_names.emplace_back("reduce_scatter");
    }
    if (gathers) {
      plan.phase_names.emplace_back("all_gather");
    }
    const auto gather = static_cast<uint16_t>(sums ? 1 : 0);
    return {0, 0, gather, gather};
  }
  plan.phase_barrier = true;
  if (sums) {
    plan.phase_names = {"reduce_scatter intra", "reduce_scatter inter"};
  }
  if (gathers) {
    plan.phase_names.emplace_back("all_gather inter");
    plan.phase_names.emplace_back("all_gather intra");
  }
  const auto gather = static_cast<uint16_t>(sums ? 2 : 0);
  return {0, 1, gather, static_cast<uint16_t>(gather + 1)};
}

// Which chunks exist and which rail carries them.
class ChunkTable {
 public:
  // Blocks by rank; extra ranks' blocks have a part per rail.
  static ChunkTable by_rank(const GroupMap& map, Plan& plan) {
    ChunkTable table(map, true);
    plan.block_count = map.world_size();
    for (uint32_t r = 0; r < map.world_size(); ++r) {
      table.first_.push_back(ChunkIndex(plan.chunks.size()));
      const uint32_t parts = map.rail_of(GlobalRank(r)) ? 1 : map.rail_count();
      for (uint32_t part = 0; part < parts; ++part) {
        plan.chunks.push_back({r, part, parts});
      }
    }
    return table;
  }
  // One block per group and rail.
  static ChunkTable by_rail(const GroupMap& map, Plan& plan) {
    set_whole_blocks(plan, map.group_count() * map.rail_count());
    return {map, false};
  }

  [[nodiscard]] bool extras_own() const { return by_rank_; }
  // What belongs to `group` on `rail`: first the rail rank's own chunk, then the extra ranks'
  // parts.
  [[nodiscard]] Chunks carried(GroupIndex group, uint32_t rail) const {
    if (!by_rank_) {
      return {ChunkIndex(group.value() * map_->rail_count() + rail)};
    }
    Chunks chunks = {first_[map_->rail_rank(group, RailIndex(rail)).at()]};
    for (uint32_t l = map_->rail_count(); l < map_->group_size(group); ++l) {
      chunks.push_back(part_of(map_->rank_at(group, GroupRank(l)), rail));
    }
    return chunks;
  }
  // Part `part` of an extra rank's block.
  [[nodiscard]] ChunkIndex part_of(GlobalRank extra, uint32_t part) const {
    return ChunkIndex(first_[extra.at()].value() + part);
  }

 private:
  ChunkTable(const GroupMap& map, bool by_rank) : map_(&map), by_rank_(by_rank) {}
  const GroupMap* map_;
  bool by_rank_;
  std::vector<ChunkIndex> first_;  // of each rank's block
};

class TwoLevel : RankBuilder {
 public:
  TwoLevel(
      const GroupMap& map, const ChunkTable& table, Phases phases, GlobalRank self, RankPlan& out)
      : RankBuilder(map, self, out), table_(table), phases_(phases), groups_(map.group_count()) {
    if (is_rail(local_)) {
      writer_.on_rail(RailIndex(local_));
      next_ = map.rail_rank(map.group_ahead(group_, 1), RailIndex(local_));
      previous_ = map.rail_rank(map.group_behind(group_, 1), RailIndex(local_));
    }
  }

  void copy_own() {
    writer_.at(phases_.gather_inter, 0);
    if (is_rail(local_)) {
      writer_.copy({table_.carried(group_, local_).front()}, Value{}, Space::kOutput);
      return;
    }
    for (uint32_t part = 0; part < rails_; ++part) {
      writer_.copy({table_.part_of(member(local_), part)}, Value{}, Space::kOutput);
    }
  }

  // `own` is the value of this rank's own chunks.
  void all_gather(const Value& own) {
    gather_own_group(own);
    for (uint32_t s = 1; s < groups_; ++s) {
      const GroupIndex source = map_.group_behind(group_, s);
      if (is_rail(local_)) {
        pass_on(source, s);
      }
      writer_.at(phases_.gather_intra, s);
      for (uint32_t k = 1; k < size_; ++k) {
        const uint32_t peer = back(k);
        if (is_rail(peer)) {
          receive_all(member(peer), table_.carried(source, peer));
        }
      }
    }
  }

  // The final sum of this rank's own rail chunk.
  Value reduce_scatter() {
    Value result;
    for (uint32_t s = 0; s < groups_; ++s) {
      const GroupIndex target = map_.group_behind(group_, s + 1);
      contribute(target, s);
      if (!is_rail(local_)) {
        continue;
      }
      const Chunks chunks = table_.carried(target, local_);
      std::vector<Value> sums;
      for (const ChunkIndex chunk : chunks) {
        sums.push_back(sum_group(chunk, chunk == chunks.front(), s));
      }
      for (size_t i = 0; i < chunks.size(); ++i) {
        sums[i] = add_and_pass(chunks[i], i == 0, s, sums[i]);
      }
      if (s + 1 == groups_) {
        result = sums.front();
        deliver(chunks, sums);
      }
    }
    if (!is_rail(local_) && table_.extras_own()) {
      writer_.at(phases_.sum_inter, groups_ - 1);
      for (uint32_t part = 0; part < rails_; ++part) {
        (void)writer_.recv(member(part), {table_.part_of(member(local_), part)}, Space::kOutput);
      }
    }
    return result;
  }

 private:
  void send_to_members(const Chunks& chunks, const Value& value) {
    for (uint32_t k = 1; k < size_; ++k) {
      writer_.send(member(ahead(k)), chunks, value);
    }
  }
  void receive_all(GlobalRank peer, const Chunks& chunks) {
    for (const ChunkIndex chunk : chunks) {
      (void)writer_.recv(peer, {chunk}, Space::kOutput);
    }
  }

  // An extra rank's part for a rail goes to that rail's rank before the network step, to the others
  // with the memory lane. The part of its own rail is first for every rank.
  void set_part_phase(uint32_t receiver, uint32_t part) {
    writer_.at(receiver == part ? phases_.gather_inter : phases_.gather_intra, 0);
  }

  // Step 0: the group's own blocks reach its members, and the network.
  void gather_own_group(const Value& own) {
    Chunks mine;
    if (is_rail(local_)) {
      mine = table_.carried(group_, local_);
      writer_.at(phases_.gather_inter, 0);
      if (groups_ > 1) {
        writer_.send(next_, {mine.front()}, own);
      }
      writer_.at(phases_.gather_intra, 0);
      send_to_members({mine.front()}, own);
    } else if (table_.extras_own()) {
      send_parts(own);
    }
    for (uint32_t k = 1; k < size_; ++k) {
      const uint32_t peer = back(k);
      if (is_rail(peer)) {
        writer_.at(phases_.gather_intra, 0);
        (void)writer_.recv(member(peer), {table_.carried(group_, peer).front()}, Space::kOutput);
      } else if (table_.extras_own()) {
        receive_parts(peer, mine);
      }
    }
    writer_.at(phases_.gather_inter, 0);
    for (size_t i = 1; i < mine.size() && groups_ > 1; ++i) {
      writer_.send(next_, {mine[i]}, part_values_[rails_ + i - 1]);
    }
  }
  void send_parts(const Value& own) {
    for (uint32_t i = 0; i < rails_; ++i) {
      for (uint32_t k = 1; k < size_; ++k) {
        const uint32_t part = (ahead(k) + i) % rails_;
        set_part_phase(ahead(k), part);
        writer_.send(member(ahead(k)), {table_.part_of(member(local_), part)}, own);
      }
    }
  }
  // Keeps the values of the parts that this rank's rail carries.
  void receive_parts(uint32_t peer, const Chunks& mine) {
    part_values_.resize(size_);
    for (uint32_t i = 0; i < rails_; ++i) {
      const uint32_t part = (local_ + i) % rails_;
      set_part_phase(local_, part);
      const ChunkIndex chunk = table_.part_of(member(peer), part);
      Value value = writer_.recv(member(peer), {chunk}, Space::kOutput);
      if (part == local_ && !mine.empty()) {
        part_values_[peer] = std::move(value);
      }
    }
  }

  // Step s: the chunks of `source` arrive on this rail and go on, to the next group and the
  // members.
  void pass_on(GroupIndex source, uint32_t s) {
    const Chunks chunks = table_.carried(source, local_);
    std::vector<Value> values;
    writer_.at(phases_.gather_inter, s - 1);
    for (const ChunkIndex chunk : chunks) {
      values.push_back(writer_.recv(previous_, {chunk}, Space::kOutput));
    }
    writer_.at(phases_.gather_inter, s);
    for (size_t i = 0; i < chunks.size() && s + 1 < groups_; ++i) {
      writer_.send(next_, {chunks[i]}, values[i]);
    }
    writer_.at(phases_.gather_intra, s);
    for (size_t i = 0; i < chunks.size(); ++i) {
      send_to_members({chunks[i]}, values[i]);
    }
  }

  // This rank's contributions to the chunks of `target` go to their rails' ranks.
  void contribute(GroupIndex target, uint32_t s) {
    writer_.at(phases_.sum_intra, s);
    for (uint32_t k = 1; k < size_; ++k) {
      if (!is_rail(ahead(k))) {
        continue;
      }
      for (const ChunkIndex chunk : table_.carried(target, ahead(k))) {
        writer_.send(member(ahead(k)), {chunk}, Value{});
      }
    }
  }
  // The group's sum, added in one fixed order of its members.
  Value sum_group(ChunkIndex chunk, bool owned, uint32_t s) {
    Value sum;
    writer_.at(phases_.sum_intra, s);
    for (uint32_t k = 1; k < size_; ++k) {
      const bool complete = groups_ == 1 && k + 1 == size_;
      const Space dst = complete && owned ? Space::kOutput : Space::kScratch;
      sum = writer_.recv_reduce(member(back(k)), {chunk}, sum, dst, complete);
    }
    return sum;
  }
  // Adds what arrived from the group before, and passes the sum on unless it ends here.
  Value add_and_pass(ChunkIndex chunk, bool owned, uint32_t s, Value sum) {
    if (s > 0) {
      const bool complete = s + 1 == groups_;
      const Space dst = complete && owned ? Space::kOutput : Space::kScratch;
      writer_.at(phases_.sum_inter, s - 1);
      sum = writer_.recv_reduce(previous_, {chunk}, sum, dst, complete);
    }
    if (s + 1 < groups_) {
      writer_.at(phases_.sum_inter, s);
      writer_.send(next_, {chunk}, sum);
    }
    return sum;
  }
  // Finished parts of extra ranks' blocks go to their owners.
  void deliver(const Chunks& chunks, const std::vector<Value>& sums) {
    writer_.at(phases_.sum_inter, groups_ - 1);
    for (uint32_t i = 1; i < chunks.size(); ++i) {
      writer_.send(member(rails_ + i - 1), {chunks[i]}, sums[i]);
    }
  }

  const ChunkTable& table_;
  Phases phases_;
  uint32_t groups_;
  GlobalRank next_;                 // on this rank's rail
  GlobalRank previous_;             // on this rank's rail
  std::vector<Value> part_values_;  // by group rank of the extra rank that owns the part
};

}  // namespace

BuiltPlan build_two_level(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  BuiltPlan built;
  const Phases phases = set_phases(built.plan, request);
  const ChunkTable table = request.collective == Collective::kAllReduce
                               ? ChunkTable::by_rail(map, built.plan)
                               : ChunkTable::by_rank(map, built.plan);
  // A rank sums the chunks of its own rail, which are an equal share of all.
  built.plan.scratch_chunk_count =
      has_sums(request.collective) ? built.plan.chunks.size() / map.rail_count() : 0;
  TwoLevel levels(map, table, phases, rank, built.mine);
  switch (request.collective) {
    case Collective::kReduceScatter:
      (void)levels.reduce_scatter();
      break;
    case Collective::kAllReduce:
      levels.all_gather(levels.reduce_scatter());
      break;
    default:  // all-gather; build.cpp sends no other here
      levels.copy_own();
      levels.all_gather(Value{});
      break;
  }
  if (built.plan.phase_barrier) {
    order_by_phase(built.mine);
  }
  return built;
}

}  // namespace ho
