// All-to-all, gather and scatter: every block goes from one rank to one rank, over one rail.
//
// A block takes at most three hops: inside its source's group to the rank of the rail (shared
// memory), along the rail to the target's group, inside that group to the target. So a rank has
// connections to at most as many ranks of other groups as there are other groups, whatever the
// world, and every NIC carries an equal share. The rail is that of the target; in a gather, which
// has only one, that of the source. Ranks beyond the rails are dealt out to them in turn. Those
// that cannot be dealt out evenly have one part of their blocks on each rail.
//
// Step k exchanges with the groups k ahead and k behind. Blocks for the network go first, so that
// it starts early. Blocks inside the group follow, then what has come from other groups.
//
// A plan of whole ops (direct) takes the same routes, with the blocks between two ranks in as few
// messages as can be: one for each place in which they lie.
#include <algorithm>
#include <map>

#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

using Ranks = std::vector<GlobalRank>;

// Which rails the blocks of a rank take.
class RailShares {
 public:
  explicit RailShares(const GroupMap& map) : map_(map), rails_(map.rail_count()) {}

  [[nodiscard]] uint32_t parts_of(GlobalRank rank) const { return is_dealt(rank) ? 1 : rails_; }
  // The part on this rail, if one is.
  [[nodiscard]] std::optional<uint32_t> part_on(RailIndex rail, GlobalRank rank) const {
    if (!is_dealt(rank)) {
      return rail.value();
    }
    const bool here = map_.group_rank_of(rank).value() % rails_ == rail.value();
    return here ? std::optional(0U) : std::nullopt;
  }
  // Of the group's ranks, how many have a part on a rail: as many on each.
  [[nodiscard]] uint64_t on_each_rail(GroupIndex group) const {
    return map_.group_size(group) / rails_ + map_.group_size(group) % rails_;
  }

 private:
  [[nodiscard]] bool is_dealt(GlobalRank rank) const {
    const uint32_t size = map_.group_size(map_.group_of(rank));
    return map_.group_rank_of(rank).value() < size - size % rails_;
  }

  const GroupMap& map_;
  uint32_t rails_;
};

// A chunk on its way.
struct Load {
  GlobalRank source;
  GlobalRank target;
  ChunkIndex chunk;
};
using Loads = std::vector<Load>;

// Which blocks there are, and their chunks.
class RouteTable {
 public:
  RouteTable(const GroupMap& map, const PlanRequest& request)
      : map_(map), collective_(request.collective), root_(request.root), shares_(map) {
    for (uint32_t r = 0; r < map.world_size(); ++r) {
      first_.push_back(row_);
      row_ += shares_.parts_of(GlobalRank(r));
    }
  }

  [[nodiscard]] uint64_t chunk_count() const { return uint64_t{rows()} * row_; }

  // The blocks, and the chunks of all ranks.
  void write_chunks(Plan& plan) const {
    plan.block_count = rows() * map_.world_size();
    plan.chunks.reserve(chunk_count());
    for (uint32_t block = 0; block < plan.block_count; ++block) {
      const uint32_t parts = shares_.parts_of(GlobalRank(block % map_.world_size()));
      for (uint32_t part = 0; part < parts; ++part) {
        plan.chunks.push_back({block, part, parts});
      }
    }
  }
  // The blocks, and the chunks of these ops alone, which get new numbers.
  void write_own_chunks(Plan& plan, RankPlan& mine) const {
    plan.block_count = rows() * map_.world_size();
    plan.own_chunks = true;
    Chunks touched;
    for (const PlanOp& op : mine.ops) {
      touched.insert(touched.end(), op.chunks.begin(), op.chunks.end());
    }
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    plan.chunks.reserve(touched.size());
    for (const ChunkIndex index : touched) {
      plan.chunks.push_back(chunk_at(index));
    }
    for (PlanOp& op : mine.ops) {
      for (ChunkIndex& index : op.chunks) {
        const auto offset = std::ranges::lower_bound(touched, index);
        index = ChunkIndex(static_cast<size_t>(offset - touched.begin()));
      }
    }
  }

  // The ranks of a group that have blocks for others, or get some.
  [[nodiscard]] Ranks sources_in(GroupIndex group) const {
    return members(group, collective_ == Collective::kScatter);
  }
  [[nodiscard]] Ranks targets_in(GroupIndex group) const {
    return members(group, collective_ == Collective::kGather);
  }
  [[nodiscard]] bool is_source(GlobalRank rank) const {
    return collective_ != Collective::kScatter || rank == root_;
  }
  [[nodiscard]] bool is_target(GlobalRank rank) const {
    return collective_ != Collective::kGather || rank == root_;
  }

  // What goes between ranks of two groups on one rail, source by source.
  [[nodiscard]] Loads on_rail(RailIndex rail, const Ranks& sources, const Ranks& targets) const {
    Loads loads;
    for (const GlobalRank source : sources) {
      for (const GlobalRank target : targets) {
        if (const auto part = shares_.part_on(rail, decides(source, target))) {
          loads.push_back({source, target, chunk(source, target, *part)});
        }
      }
    }
    return loads;
  }
  // All of the block, which stays in its group.
  [[nodiscard]] Loads whole_block(GlobalRank source, GlobalRank target) const {
    Loads loads;
    for (uint32_t part = 0; part < shares_.parts_of(decides(source, target)); ++part) {
      loads.push_back({source, target, chunk(source, target, part)});
    }
    return loads;
  }

  // Of any rank: what others have it pass on, to other groups and from them.
  [[nodiscard]] uint64_t most_in_scratch() const {
    uint64_t most = 0;
    for (uint32_t g = 0; g < map_.group_count(); ++g) {
      const GroupIndex group(g);
      const uint64_t here = shares_.on_each_rail(group);
      uint64_t elsewhere = 0;
      for (uint32_t other = 0; other < map_.group_count(); ++other) {
        elsewhere += other == g ? 0 : shares_.on_each_rail(GroupIndex(other));
      }
      most = std::max(most, in_scratch(group, here, elsewhere));
    }
    return map_.group_count() == 1 ? 0 : most;
  }

 private:
  [[nodiscard]] uint32_t rows() const {
    return collective_ == Collective::kAllToAll ? map_.world_size() : 1;
  }
  // What write_chunks() has there.
  [[nodiscard]] Chunk chunk_at(ChunkIndex index) const {
    const uint32_t row = index.value() / row_;
    const uint32_t in_row = index.value() % row_;
    const auto above = std::ranges::upper_bound(first_, in_row);
    const auto rank = static_cast<uint32_t>(above - first_.begin()) - 1;
    return {
        row * map_.world_size() + rank, in_row - first_[rank], shares_.parts_of(GlobalRank(rank))};
  }
  [[nodiscard]] uint64_t in_scratch(GroupIndex group, uint64_t here, uint64_t elsewhere) const {
    if (collective_ == Collective::kAllToAll) {
      const uint64_t size = map_.group_size(group);
      return (size - 1) * elsewhere + (map_.world_size() - size) * (here - 1);
    }
    return group == map_.group_of(root_) ? elsewhere : here - 1;
  }
  [[nodiscard]] Ranks members(GroupIndex group, bool root_only) const {
    if (!root_only) {
      return map_.members(group);
    }
    return map_.group_of(root_) == group ? Ranks{root_} : Ranks{};
  }
  // Whose rail a block takes, and by whom the blocks are cut.
  [[nodiscard]] GlobalRank decides(GlobalRank source, GlobalRank target) const {
    return collective_ == Collective::kGather ? source : target;
  }
  [[nodiscard]] ChunkIndex chunk(GlobalRank source, GlobalRank target, uint32_t part) const {
    const size_t row = collective_ == Collective::kAllToAll ? source.at() * row_ : 0;
    return ChunkIndex(row + first_[decides(source, target).at()] + part);
  }

  const GroupMap& map_;
  Collective collective_;
  GlobalRank root_;
  RailShares shares_;
  std::vector<uint32_t> first_;  // by rank: its first chunk in a row of blocks
  uint32_t row_ = 0;             // chunks
};

class Routed : RankBuilder {
 public:
  Routed(
      const GroupMap& map, const RouteTable& table, GlobalRank self, bool whole_ops, RankPlan& out)
      : RankBuilder(map, self, out), table_(table), whole_ops_(whole_ops) {}

  void run() {
    for (uint32_t k = 1; k < map_.group_count(); ++k) {
      writer_.at(0, k - 1);
      send_to_group(map_.group_ahead(group_, k));
    }
    exchange_in_group();
    for (uint32_t k = 1; k < map_.group_count(); ++k) {
      writer_.at(0, k - 1);
      receive_from_group(map_.group_behind(group_, k));
    }
  }

 private:
  [[nodiscard]] Ranks self_if(bool takes_part) const { return takes_part ? Ranks{self_} : Ranks{}; }

  // Which loads go in one message, as both ends see it.
  [[nodiscard]] std::vector<Loads> messages(const Loads& loads,
                                            GlobalRank sender,
                                            GlobalRank receiver) const {
    if (!whole_ops_) {
      std::vector<Loads> single;
      for (const Load& load : loads) {
        single.push_back({load});
      }
      return single;
    }
    std::vector<Loads> by_offset(4);
    for (const Load& load : loads) {
      const size_t offset = (load.source == sender ? 0U : 1U) + (load.target == receiver ? 0U : 2U);
      by_offset[offset].push_back(load);
    }
    std::erase_if(by_offset, [](const Loads& none) { return none.empty(); });
    return by_offset;
  }
  [[nodiscard]] static Chunks chunks_of(const Loads& loads) {
    Chunks chunks;
    for (const Load& load : loads) {
      chunks.push_back(load.chunk);
    }
    return chunks;
  }

  // From the input, or from where receive() has put them.
  void send(GlobalRank peer, const Loads& loads) {
    for (const Loads& message : messages(loads, self_, peer)) {
      const bool own = message.front().source == self_;
      Value value{own ? Space::kInput : Space::kScratch, {}};
      for (const Load& load : message) {
        if (!own) {
          value.writers.push_back(passing_.at(load.chunk));
        }
      }
      std::ranges::sort(value.writers);
      value.writers.erase(std::unique(value.writers.begin(), value.writers.end()),
                          value.writers.end());
      writer_.send(peer, chunks_of(message), value);
    }
  }
  void receive(GlobalRank peer, const Loads& loads) {
    for (const Loads& message : messages(loads, peer, self_)) {
      const bool ends = message.front().target == self_;
      const Value value =
          writer_.recv(peer, chunks_of(message), ends ? Space::kOutput : Space::kScratch);
      for (const Load& load : message) {
        passing_[load.chunk] = value.writers.front();
      }
    }
  }

  // The group's members in the order in which a rail takes what they have: its own rank's first.
  [[nodiscard]] Ranks sources_for(RailIndex rail, GroupIndex group) const {
    Ranks sources = table_.sources_in(group);
    const auto own = std::ranges::find(sources, map_.rail_rank(group, rail));
    if (own != sources.end()) {
      std::rotate(sources.begin(), own, sources.end());
    }
    return sources;
  }

  void send_to_group(GroupIndex to) {
    const Ranks targets = table_.targets_in(to);
    for (uint32_t k = 1; k < size_; ++k) {
      if (is_rail(ahead(k))) {
        send(member(ahead(k)),
             table_.on_rail(RailIndex(ahead(k)), self_if(table_.is_source(self_)), targets));
      }
    }
    if (!is_rail(local_)) {
      return;
    }
    const RailIndex rail(local_);
    const Ranks sources = sources_for(rail, group_);
    for (const GlobalRank source : sources) {
      if (source != self_) {
        receive(source, table_.on_rail(rail, {source}, targets));
      }
    }
    writer_.on_rail(rail);
    send(map_.rail_rank(to, rail), table_.on_rail(rail, sources, targets));
  }

  void exchange_in_group() {
    writer_.at(0, 0);
    if (table_.is_source(self_)) {
      for (const Load& load : own_block()) {
        writer_.copy({load.chunk}, Value{}, Space::kOutput);
      }
      for (uint32_t k = 1; k < size_; ++k) {
        if (table_.is_target(member(ahead(k)))) {
          send(member(ahead(k)), table_.whole_block(self_, member(ahead(k))));
        }
      }
    }
    for (uint32_t k = 1; k < size_ && table_.is_target(self_); ++k) {
      if (table_.is_source(member(back(k)))) {
        receive(member(back(k)), table_.whole_block(member(back(k)), self_));
      }
    }
  }
  [[nodiscard]] Loads own_block() const {
    return table_.is_target(self_) ? table_.whole_block(self_, self_) : Loads{};
  }

  void receive_from_group(GroupIndex from) {
    if (is_rail(local_)) {
      const RailIndex rail(local_);
      const Ranks sources = sources_for(rail, from);
      writer_.on_rail(rail);
      receive(map_.rail_rank(from, rail), table_.on_rail(rail, sources, table_.targets_in(group_)));
      for (uint32_t k = 1; k < size_; ++k) {
        if (table_.is_target(member(ahead(k)))) {
          send(member(ahead(k)), table_.on_rail(rail, sources, {member(ahead(k))}));
        }
      }
    }
    for (uint32_t k = 1; k < size_; ++k) {
      if (is_rail(back(k))) {
        const RailIndex rail(back(k));
        receive(member(back(k)),
                table_.on_rail(rail, sources_for(rail, from), self_if(table_.is_target(self_))));
      }
    }
  }

  const RouteTable& table_;
  bool whole_ops_;
  std::map<ChunkIndex, uint32_t> passing_;  // the receives that brought chunks here
};

}  // namespace

uint64_t routed_chunk_count(const GroupMap& map, const PlanRequest& request) {
  return RouteTable(map, request).chunk_count();
}

BuiltPlan build_routed(const GroupMap& map,
                       const PlanRequest& request,
                       GlobalRank rank,
                       RoutedChunks chunks) {
  BuiltPlan built;
  const RouteTable table(map, request);
  built.plan.whole_ops = request.algorithm == Algorithm::kDirect;
  built.plan.phase_names = {std::string(to_string(request.collective))};
  built.plan.scratch_chunk_count = table.most_in_scratch();
  Routed(map, table, rank, built.plan.whole_ops, built.mine).run();
  if (request.collective == Collective::kAllToAll && chunks == RoutedChunks::kOwn) {
    table.write_own_chunks(built.plan, built.mine);
  } else {
    table.write_chunks(built.plan);
  }
  return built;
}

}  // namespace ho
