// What a run waits for, in words: for errors and for the stall report.
#include <spdlog/fmt/fmt.h>

#include "exec/run.hpp"

namespace ho {

std::string Run::queue_head_text(const Queue& queue) const {
  if (!queue.started.empty()) {
    return fmt::format("{} pieces that the device is at", queue.started.size());
  }
  if (queue.ended) {
    return fmt::format("{} to rank {}: waiting for it to read the last pieces",
                       to_string(queue.layout->lane),
                       queue.layout->peer.value());
  }
  const PlanOp& op = schedule_->op(queue.op());
  const auto& names = schedule_->built.plan.phase_names;
  const std::string phase = op.phase < names.size() ? " (phase " + names[op.phase] + ")" : "";
  const std::string rail =
      op.lane == Lane::kInter ? " of rail " + std::to_string(op.rail.value()) : "";
  if (op.kind == OpKind::kCopy) {
    return "local copy";
  }
  return fmt::format("{} step {}{}: {} rank {}{}",
                     to_string(op.lane),
                     op.step,
                     rail,
                     op.kind == OpKind::kSend ? "send to" : "recv from",
                     op.peer.value(),
                     phase);
}

std::string Run::waiting_text() const {
  if (started_ns_ == 0) {
    return call_.device.work == nullptr ? "" : "waiting for the stream of the call to get to it";
  }
  std::string text;
  std::string last_trouble;
  int listed = 0;
  // First what waits for another rank, then what waits for our own progress.
  for (const Queue& queue : queues_) {
    const bool waits = queue.ended ? !queue.unreleased.empty() || !queue.started.empty()
                                   : ready(queue.op(), queue.piece);
    if (waits && listed < 3) {
      text += (listed++ == 0 ? "" : "; ") + queue_head_text(queue);
      const std::string trouble =
          queue.layout->link != nullptr ? queue.layout->link->trouble() : std::string();
      text += trouble.empty() || trouble == last_trouble ? "" : ", but " + trouble;
      last_trouble = trouble;
    }
  }
  return text;
}

}  // namespace ho
