// The order of the checks: each relies on what the earlier ones have shown.
#include "plan/verify.hpp"

#include "plan/op_graph.hpp"

namespace ho {

Status verify(const WholePlan& whole, const GroupMap& map) {
  HORING_TRY(check_bounds(whole, map));
  HORING_ASSIGN(const OpGraph graph, connect_ops(whole));
  HORING_TRY(check_chunks(graph, map));
  return check_bytes(whole, map);
}

Status broken_plan(const Plan& plan, std::string_view rule, std::string message) {
  return {StatusCode::kInternal,
          "plan " + std::string(to_string(plan.collective)) + " " +
              std::string(to_string(plan.algorithm)) + ": " + std::string(rule) + ": " +
              std::move(message)};
}

std::string chunk_text(const Plan& plan, ChunkIndex chunk) {
  if (chunk.at() >= plan.chunks.size()) {
    return "chunk " + std::to_string(chunk.value());
  }
  const Chunk& value = plan.chunks[chunk.at()];
  std::string text =
      "chunk " + std::to_string(chunk.value()) + " (block " + std::to_string(value.block);
  if (value.parts != 1) {
    text += " part " + std::to_string(value.part) + " of " + std::to_string(value.parts);
  }
  return text + ")";
}

std::string op_text(const WholePlan& whole, uint32_t rank, size_t index) {
  const PlanOp& op = whole.ranks[rank].ops[index];
  std::string text = "rank " + std::to_string(rank) + " op " + std::to_string(index) + " (" +
                     std::string(to_string(op.kind));
  if (op.chunks.size() == 1) {
    text += " " + chunk_text(whole.plan, op.chunks.front());
  } else {
    text += " " + std::to_string(op.chunks.size()) + " chunks";
  }
  if (op.kind != OpKind::kCopy) {
    text += (op.kind == OpKind::kSend ? " to rank " : " from rank ") +
            std::to_string(op.peer.value()) + ", " + std::string(to_string(op.lane));
    if (op.lane == Lane::kInter) {
      text += " rail " + std::to_string(op.rail.value());
    }
    if (whole.plan.connection_count > 1) {
      text += " connection " + std::to_string(op.connection);
    }
  }
  return text + ", phase " + std::to_string(op.phase) + " step " + std::to_string(op.step) + ")";
}

}  // namespace ho
