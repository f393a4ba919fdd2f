#include "exec/piece_progress.hpp"

#include <algorithm>

namespace ho {

PieceProgress::PieceProgress(const Schedule& schedule, const Binding& binding)
    : schedule_(schedule), binding_(binding), through_(schedule.built.mine.ops.size(), 0) {
  const auto& ops = schedule.built.mine.ops;
  const bool barrier = schedule.built.plan.phase_barrier;
  if (barrier) {
    barrier_left_.assign(size_t{binding.pass_count()} * schedule.phase_count, 0);
  }
  for (const QueueLayout& layout : schedule.queues) {
    for (const uint32_t index : layout.ops) {
      total_ += binding.op_pieces(ops[index]);
      for (uint32_t pass = 0; barrier && pass < binding.pass_count(); ++pass) {
        const auto range = binding.op_pieces_in(ops[index], pass);
        barrier_left_[size_t{pass} * schedule.phase_count + ops[index].phase] +=
            range.end - range.first;
      }
    }
  }
  pass_barriers();
}

bool PieceProgress::ready(uint32_t op_index, uint32_t piece) const {
  if (!barrier_left_.empty() && barrier_now_ < phase_of(op_index, piece)) {
    return false;
  }
  for (const uint32_t dep : schedule_.op(op_index).deps) {
    if (!satisfied(dep, piece)) {
      return false;
    }
  }
  if (piece >= binding_.pass_pieces()) {
    for (const uint32_t reader : schedule_.readers_before[op_index]) {
      if (!satisfied(reader, piece - binding_.pass_pieces())) {
        return false;
      }
    }
  }
  return true;
}

PieceProgress::Blockers PieceProgress::blockers_of(uint32_t op_index, uint32_t piece) const {
  Blockers found;
  collect_blockers(op_index, piece, found);
  return found;
}

void PieceProgress::collect_blockers(uint32_t op_index, uint32_t piece, Blockers& found) const {
  const auto visit = [&](uint32_t dep, uint32_t dep_piece) {
    if (satisfied(dep, dep_piece) || std::ranges::find(found.ops, dep) != found.ops.end()) {
      return;
    }
    found.ops.push_back(dep);
    const PlanOp& op = schedule_.op(dep);
    const bool is_ready = ready(dep, dep_piece);
    if (op.kind == OpKind::kSend) {
      found.releases = true;
      found.network |= is_ready && op.lane == Lane::kInter;
    } else if (op.kind != OpKind::kCopy && op.lane == Lane::kIntra) {
      ++found.intra_messages;
    } else {
      found.network |= is_ready;
    }
    if (!is_ready) {
      collect_blockers(dep, dep_piece, found);
    }
  };
  for (const uint32_t dep : schedule_.op(op_index).deps) {
    visit(dep, piece);
  }
  if (piece >= binding_.pass_pieces()) {
    for (const uint32_t reader : schedule_.readers_before[op_index]) {
      visit(reader, piece - binding_.pass_pieces());
    }
  }
}

}  // namespace ho
