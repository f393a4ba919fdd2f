// Two transfers can overlap when neither must wait for the other: the second's send is not reached
// from the first's receive, nor the other way round. Reach is found for each inter step of a group
// by one pass over the ops, in an order in which they can run.
#include "plan/summary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "plan/op_graph.hpp"

namespace ho {
namespace {

// What an op waits for. Link order is optional: it delays, but brings no data.
class Predecessors {
 public:
  explicit Predecessors(const OpGraph& graph) : graph_(graph), link_before_(graph.size(), kNoOp) {
    std::vector<OpId> last(graph.size() + 1, kNoOp);
    for (OpId id = 0; id < graph.size(); ++id) {
      OpId& previous = last[graph.link[id]];
      link_before_[id] = previous;
      previous = id;
    }
  }

  template <typename Visit>
  void visit(OpId id, bool with_links, Visit&& each) const {
    const PlanOp& op = graph_.op(id);
    for (const uint32_t dep : op.deps) {
      each(graph_.sibling(id, dep));
    }
    if (op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce) {
      each(graph_.partner[id]);
    }
    if (with_links && link_before_[id] != kNoOp) {
      each(link_before_[id]);
    }
    const uint32_t rank = graph_.rank[id];
    for (OpId other = graph_.first[rank];
         graph_.whole->plan.phase_barrier && other < graph_.first[rank + 1];
         ++other) {
      if (graph_.op(other).phase < op.phase) {
        each(other);
      }
    }
  }

 private:
  const OpGraph& graph_;
  std::vector<OpId> link_before_;  // each op's predecessor on its link
};

class Summarizer {
 public:
  Summarizer(const OpGraph& graph, const GroupMap& map, GlobalRank rank)
      : graph_(graph), map_(map), rank_(rank), before_(graph) {}

  PlanSummary run() {
    summary_.traffic = measure_traffic(*graph_.whole, map_);
    count_steps();
    measure_scratch();
    summary_.inter_hops = longest_row(false);
    summary_.inter_messages = longest_row(true);
    list_links();
    find_overlaps();
    return std::move(summary_);
  }

 private:
  using StepKey = std::pair<uint16_t, uint32_t>;  // phase, step

  void count_steps();
  void measure_scratch();
  [[nodiscard]] uint32_t longest_row(bool with_links) const;
  void list_links();
  void find_overlaps();
  [[nodiscard]] bool in_group(OpId id) const {
    return map_.group_of(GlobalRank(graph_.rank[id])) == map_.group_of(rank_);
  }
  [[nodiscard]] StepOverlap overlap_step(StepKey step, const std::vector<OpId>& sends) const;
  // Marks what has to wait for one of the marked, or what one of the marked has to wait for.
  void mark_later(std::vector<bool>& marked) const;
  void mark_earlier(std::vector<bool>& marked) const;

  const OpGraph& graph_;
  const GroupMap& map_;
  GlobalRank rank_;
  Predecessors before_;
  std::map<StepKey, std::vector<OpId>> intra_;  // the sends inside the rank's group
  PlanSummary summary_;
};

void Summarizer::count_steps() {
  summary_.steps.resize(graph_.whole->plan.phase_names.size());
  for (OpId id = 0; id < graph_.size(); ++id) {
    const PlanOp& op = graph_.op(id);
    if (op.kind != OpKind::kCopy) {
      PhaseSteps& steps = summary_.steps[op.phase];
      uint32_t& count = op.lane == Lane::kInter ? steps.inter : steps.intra;
      count = std::max(count, op.step + 1);
    }
  }
}

void Summarizer::measure_scratch() {
  for (uint32_t rank = 0; rank < map_.world_size(); ++rank) {
    std::set<ChunkIndex> chunks;
    for (const PlanOp& op : graph_.whole->ranks[rank].ops) {
      if (op.kind != OpKind::kSend && op.dst == Space::kScratch) {
        chunks.insert(op.chunks.begin(), op.chunks.end());
      }
    }
    uint64_t units = 0;
    for (const ChunkIndex chunk : chunks) {
      units += chunk_units(graph_.whole->plan, chunk, summary_.traffic.block);
    }
    summary_.scratch = std::max(summary_.scratch, units);
  }
}

uint32_t Summarizer::longest_row(bool with_links) const {
  std::vector<uint32_t> row(graph_.size(), 0);
  uint32_t longest = 0;
  for (const OpId id : graph_.in_order) {
    const PlanOp& op = graph_.op(id);
    before_.visit(id, with_links, [&](OpId earlier) { row[id] = std::max(row[id], row[earlier]); });
    row[id] += op.kind == OpKind::kSend && op.lane == Lane::kInter ? 1U : 0U;
    longest = std::max(longest, row[id]);
  }
  return longest;
}

void Summarizer::list_links() {
  std::map<std::tuple<Lane, RailIndex, GlobalRank>, LinkShare> links;
  for (const PlanOp& op : graph_.whole->ranks[rank_.at()].ops) {
    if (op.kind == OpKind::kCopy) {
      continue;
    }
    LinkShare& link = links[{op.lane, op.rail, op.peer}];
    link.peer = op.peer;
    link.lane = op.lane;
    link.rail = op.rail;
    const bool sends = op.kind == OpKind::kSend;
    for (const ChunkIndex chunk : op.chunks) {
      (sends ? link.units.out : link.units.in) +=
          chunk_units(graph_.whole->plan, chunk, summary_.traffic.block);
    }
    (sends ? link.messages.out : link.messages.in) += 1;
  }
  for (const auto& [key, link] : links) {
    summary_.links.push_back(link);
  }
}

void Summarizer::mark_later(std::vector<bool>& marked) const {
  for (const OpId id : graph_.in_order) {
    before_.visit(id, true, [&](OpId earlier) { marked[id] = marked[id] || marked[earlier]; });
  }
}

void Summarizer::mark_earlier(std::vector<bool>& marked) const {
  for (size_t i = graph_.size(); i-- > 0;) {
    const OpId id = graph_.in_order[i];
    if (marked[id]) {
      before_.visit(id, true, [&](OpId earlier) { marked[earlier] = true; });
    }
  }
}

StepOverlap Summarizer::overlap_step(StepKey step, const std::vector<OpId>& sends) const {
  std::vector<bool> later(graph_.size(), false);
  std::vector<bool> earlier(graph_.size(), false);
  for (const OpId send : sends) {
    earlier[send] = true;
    later[graph_.partner[send]] = true;
  }
  mark_later(later);
  mark_earlier(earlier);
  StepOverlap overlap{step.first, step.second, {}};
  for (const auto& [intra, transfers] : intra_) {
    const auto free = std::ranges::count_if(
        transfers, [&](OpId send) { return !later[send] && !earlier[graph_.partner[send]]; });
    if (free > 0) {
      overlap.intra.push_back({intra.first,
                               intra.second,
                               static_cast<uint32_t>(free),
                               static_cast<uint32_t>(transfers.size())});
    }
  }
  return overlap;
}

void Summarizer::find_overlaps() {
  std::map<StepKey, std::vector<OpId>> inter;
  for (OpId id = 0; id < graph_.size(); ++id) {
    const PlanOp& op = graph_.op(id);
    if (op.kind != OpKind::kSend || (!in_group(id) && !in_group(graph_.partner[id]))) {
      continue;
    }
    (op.lane == Lane::kIntra ? intra_ : inter)[{op.phase, op.step}].push_back(id);
  }
  for (const auto& [step, sends] : inter) {
    summary_.overlaps.push_back(overlap_step(step, sends));
  }
}

}  // namespace

Result<PlanSummary> summarize(const WholePlan& whole, const GroupMap& map, GlobalRank rank) {
  HORING_TRY(check_bounds(whole, map));
  HORING_ASSIGN(const OpGraph graph, connect_ops(whole));
  return Summarizer(graph, map, rank).run();
}

}  // namespace ho
