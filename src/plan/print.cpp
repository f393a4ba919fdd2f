#include "plan/print.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/quantity.hpp"

namespace ho {
namespace {

std::string number(uint64_t value) {
  return std::to_string(value);
}
std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// "blocks 0-3,5" of an op with many chunks; "block 4 part 0/2" of one.
std::string chunk_list(const Plan& plan, const PlanOp& op) {
  if (op.chunks.size() == 1) {
    const Chunk& chunk = plan.chunks[op.chunks.front().at()];
    const std::string part =
        chunk.parts == 1 ? "" : " part " + number(chunk.part) + "/" + number(chunk.parts);
    return "block " + number(chunk.block) + part;
  }
  std::vector<uint32_t> chunks;
  for (const ChunkIndex chunk : op.chunks) {
    chunks.push_back(chunk.value());
  }
  return "chunks " + ranges_text(chunks);
}

std::string slots(const PlanOp& op) {
  std::string src(to_string(op.src));
  std::string dst(to_string(op.dst));
  switch (op.kind) {
    case OpKind::kSend:
      return src;
    case OpKind::kRecv:
      return dst;
    case OpKind::kRecvReduce:
    case OpKind::kCopy:
      break;
  }
  return src + " -> " + dst;
}

std::string print_head(const WholePlan& whole, const GroupMap& map) {
  const Plan& plan = whole.plan;
  std::string text = std::string(to_string(plan.collective)) + " " +
                     std::string(to_string(plan.algorithm)) + ", groups " + map.to_string();
  if (has_root(plan.collective)) {
    text += ", root " + number(plan.root.value());
  }
  text += "\n" + number(map.world_size()) + " ranks, " + number(map.group_count()) + " groups, " +
          number(map.rail_count()) + " rails; " + number(plan.block_count) + " blocks in " +
          number(plan.chunks.size()) + " chunks; ";
  text += plan.whole_ops ? "each op is one message\n" : "each op runs in pieces\n";
  return text;
}

std::string print_phases(const Plan& plan, const PlanSummary& summary) {
  std::string text = plan.phase_barrier ? "phases, each after the one before:\n" : "phases:\n";
  for (size_t p = 0; p < plan.phase_names.size(); ++p) {
    text += "  " + number(p) + " " + plan.phase_names[p] + ": " + number(summary.steps[p].inter) +
            " inter steps, " + number(summary.steps[p].intra) + " intra steps\n";
  }
  text += "critical path: " + number(summary.inter_messages) + " inter messages in a row, " +
          number(summary.inter_hops) + " boundaries deep\n";
  return text + "scratch: at most " + fraction(summary.scratch, summary.traffic.data) +
         " of the data on a rank\n";
}

std::string print_flow(const Flow& flow, uint64_t data) {
  return "in " + fraction(flow.in, data) + ", out " + fraction(flow.out, data);
}

std::string print_traffic(const PlanSummary& summary, GlobalRank rank) {
  const Traffic& traffic = summary.traffic;
  std::string text =
      "bytes, as fractions of the data (" + number(traffic.data / traffic.block) + " blocks):\n";
  for (size_t g = 0; g < traffic.boundary.size(); ++g) {
    text += "  boundary of group " + number(g) + ": " +
            print_flow(traffic.boundary[g], traffic.data) + "\n";
    for (size_t r = 0; r < traffic.rails[g].size(); ++r) {
      text += "    rail " + number(r) + ": " + print_flow(traffic.rails[g][r], traffic.data) + "\n";
    }
  }
  text += "  rank " + number(rank.value()) + ": intra " +
          print_flow(traffic.intra[rank.at()], traffic.data) + "; inter " +
          print_flow(traffic.inter[rank.at()], traffic.data) + "\n";
  for (const LinkShare& link : summary.links) {
    text += "    rank " + number(link.peer.value()) + " " + std::string(to_string(link.lane));
    text += link.lane == Lane::kInter ? " rail " + number(link.rail.value()) : "";
    text += ": " + print_flow(link.units, traffic.data) + " (messages in " +
            number(link.messages.in) + ", out " + number(link.messages.out) + ")\n";
  }
  return text;
}

std::string print_overlaps(const Plan& plan, const PlanSummary& summary, GlobalRank rank) {
  std::string text = "overlap, inter steps of rank " + number(rank.value()) +
                     "'s group with the intra transfers that need not wait for any of theirs";
  text += plan.whole_ops || plan.phase_barrier
              ? ":\n"
              : "\n(pieces of one transfer overlap beyond that):\n";
  for (const StepOverlap& overlap : summary.overlaps) {
    text += "  " + plan.phase_names[overlap.phase] + " inter step " + number(overlap.step) + ":";
    for (const IntraShare& intra : overlap.intra) {
      text += (&intra == &overlap.intra.front() ? " " : "; ") + plan.phase_names[intra.phase] +
              " intra step " + number(intra.step) + " (" + number(intra.free) + " of " +
              number(intra.total) + ")";
    }
    text += overlap.intra.empty() ? " none\n" : "\n";
  }
  return text + (summary.overlaps.empty() ? "  no inter steps\n" : "");
}

}  // namespace

std::string fraction(uint64_t units, uint64_t whole) {
  const uint64_t divisor = std::gcd(units, whole);
  if (divisor == 0 || units == 0) {
    return "0";
  }
  const std::string top = number(units / divisor);
  return whole == divisor ? top : top + "/" + number(whole / divisor);
}

std::string print_op(const Plan& plan, const RankPlan& ranks_ops, size_t index) {
  const PlanOp& op = ranks_ops.ops[index];
  std::string text = padded(number(index), 5) + padded(std::string(to_string(op.kind)), 13) +
                     padded(chunk_list(plan, op), 20);
  std::string peer;
  if (op.kind != OpKind::kCopy) {
    peer = (op.kind == OpKind::kSend ? "to rank " : "from rank ") + number(op.peer.value()) + " " +
           std::string(to_string(op.lane));
    peer += op.lane == Lane::kInter ? " rail " + number(op.rail.value()) : "";
    peer += plan.connection_count > 1 ? " connection " + number(op.connection) : "";
  }
  text += " " + padded(peer, plan.connection_count > 1 ? 38 : 26) + " " + padded(slots(op), 18) +
          " phase " + number(op.phase) + " step " + number(op.step);
  text += op.final_sum ? " final" : "";
  for (const uint32_t& dep : op.deps) {
    text += (&dep == &op.deps.front() ? " after " : ",") + number(dep);
  }
  return text;
}

std::string print_plan(const WholePlan& whole,
                       const GroupMap& map,
                       const PlanSummary& summary,
                       GlobalRank rank) {
  const RankPlan& mine = whole.ranks[rank.at()];
  std::string text = print_head(whole, map) + print_phases(whole.plan, summary) +
                     print_traffic(summary, rank) + print_overlaps(whole.plan, summary, rank) +
                     "ops of rank " + number(rank.value()) + ":\n";
  for (size_t i = 0; i < mine.ops.size(); ++i) {
    text += "  " + print_op(whole.plan, mine, i) + "\n";
  }
  return text;
}

}  // namespace ho
