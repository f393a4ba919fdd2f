#include "core/rail/window_plan.hpp"

#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "core/rail/operands.hpp"

namespace ho::plugin::rail {
namespace {

class AllEntered final : public EnteredWindows {
 public:
  explicit AllEntered(const std::vector<Window>& windows) : windows_(windows) {}
  [[nodiscard]] uint64_t first() const override { return 0; }
  [[nodiscard]] uint64_t end() const override { return windows_.size(); }
  [[nodiscard]] const Window& window(uint64_t operation) const override {
    return windows_[operation];
  }

 private:
  const std::vector<Window>& windows_;
};

Collective collective_of(WindowKind kind) {
  switch (kind) {
    case WindowKind::kAllReduce:
      return Collective::kAllReduce;
    case WindowKind::kAllGather:
      return Collective::kAllGather;
    case WindowKind::kReduceScatter:
      break;
  }
  return Collective::kReduceScatter;
}

BlockRole role_of(WindowKind kind, GlobalRank owner) {
  switch (kind) {
    case WindowKind::kAllReduce:
      return {};
    case WindowKind::kAllGather:
      return {owner, std::nullopt};
    case WindowKind::kReduceScatter:
      break;
  }
  return {std::nullopt, owner};
}

Space space_of(Memory memory) {
  switch (memory) {
    case Memory::kInput:
      return Space::kInput;
    case Memory::kResult:
      return Space::kOutput;
    case Memory::kScratch:
      break;
  }
  return Space::kScratch;
}

class WindowPlanner {
 public:
  WindowPlanner(const std::vector<Window>& windows, uint64_t wanted_piece_bytes)
      : windows_(windows),
        entered_(windows),
        members_(windows.front().members),
        wanted_piece_bytes_(wanted_piece_bytes) {}

  // Blocks, chunks and phases.
  Plan shared_part();
  RankPlan ops_of(uint32_t self);

 private:
  // Which op of a rank's is this message.
  using Ops = std::map<std::pair<FlowKind, Position>, uint32_t>;
  struct Written {
    Ops receives;
    Ops sends;
  };

  void copy_own_segments(uint32_t self, RankPlan& mine) const;
  void write_flow(size_t number, uint32_t self, Written& written, RankPlan& mine) const;
  [[nodiscard]] std::vector<size_t> flows_of(uint32_t self) const;
  [[nodiscard]] std::vector<Message> walk(size_t number, Walk::Side side, uint32_t self) const;
  [[nodiscard]] PlanOp transfer(size_t number,
                                Walk::Side side,
                                uint32_t self,
                                const Message& message) const;
  [[nodiscard]] PlanOp send(size_t number,
                            uint32_t self,
                            const Message& message,
                            const Ops& received) const;
  [[nodiscard]] PlanOp receive(size_t number, uint32_t self, const Message& message) const;
  // Of what a receive has left in scratch memory, once it may be written.
  [[nodiscard]] PlanOp store(const PlanOp& received,
                             uint32_t receive,
                             const std::optional<uint32_t>& send) const;
  [[nodiscard]] uint16_t phase_of(FlowKind kind) const {
    return kind == FlowKind::kBroadcast && reduces_ ? 1 : 0;
  }

  const std::vector<Window>& windows_;
  AllEntered entered_;
  uint32_t members_;
  uint64_t wanted_piece_bytes_;
  bool reduces_ = false;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> first_chunk_;  // by operation and owner
};

Plan WindowPlanner::shared_part() {
  Plan plan;
  plan.collective = collective_of(windows_.front().kind);
  plan.algorithm = Algorithm::kRing;
  plan.whole_ops = true;
  plan.connection_count = kFlowCount;
  bool spreads = false;
  for (uint64_t operation = 0; operation < windows_.size(); ++operation) {
    const Window& window = windows_[operation];
    reduces_ = reduces_ || window.has(FlowKind::kReduction);
    spreads = spreads || window.has(FlowKind::kBroadcast);
    for (uint32_t owner = 0; owner < members_; ++owner) {
      const uint64_t pieces =
          piece_count(window, window.segment(owner).byte_count, wanted_piece_bytes_);
      if (pieces == 0) {
        continue;
      }
      if (window.exchanges() && owner > 0) {  // the same bytes for both owners
        first_chunk_[{operation, owner}] = first_chunk_.at({operation, 0});
        continue;
      }
      first_chunk_[{operation, owner}] = static_cast<uint32_t>(plan.chunks.size());
      for (uint64_t piece = 0; piece < pieces; ++piece) {
        plan.chunks.push_back(
            {plan.block_count, static_cast<uint32_t>(piece), static_cast<uint32_t>(pieces)});
      }
      plan.block_roles.push_back(role_of(window.kind, GlobalRank(owner)));
      ++plan.block_count;
    }
  }
  if (reduces_) {
    plan.phase_names.emplace_back("reduction");
  }
  if (spreads) {
    plan.phase_names.emplace_back("broadcast");
  }
  return plan;
}

RankPlan WindowPlanner::ops_of(uint32_t self) {
  RankPlan mine;
  Written written;
  copy_own_segments(self, mine);
  for (const size_t number : flows_of(self)) {
    write_flow(number, self, written, mine);
  }
  return mine;
}

// In their order, but that of two members each sends what the other owns before it receives its
// own: in an exchange the receive waits for that send.
std::vector<size_t> WindowPlanner::flows_of(uint32_t self) const {
  std::vector<size_t> flows(kFlowCount);
  std::iota(flows.begin(), flows.end(), size_t{0});
  if (members_ == 2 && self == 0) {
    std::swap(flows[0], flows[1]);
  }
  return flows;
}

void WindowPlanner::copy_own_segments(uint32_t self, RankPlan& mine) const {
  for (uint64_t operation = 0; operation < windows_.size(); ++operation) {
    const Window& window = windows_[operation];
    const auto first = first_chunk_.find({operation, self});
    if (!copies_own_segment(window) || first == first_chunk_.end()) {
      continue;
    }
    PlanOp& op = mine.ops.emplace_back();
    op.kind = OpKind::kCopy;
    op.src = Space::kInput;
    op.dst = Space::kOutput;
    op.phase =
        phase_of(window.has(FlowKind::kBroadcast) ? FlowKind::kBroadcast : FlowKind::kReduction);
    op.peer = GlobalRank(self);
    const uint64_t pieces =
        piece_count(window, window.segment(self).byte_count, wanted_piece_bytes_);
    for (uint64_t piece = 0; piece < pieces; ++piece) {
      op.chunks.emplace_back(first->second + piece);
    }
  }
}

std::vector<Message> WindowPlanner::walk(size_t number, Walk::Side side, uint32_t self) const {
  std::vector<Message> messages;
  Walk walk(flow_at(number), side, self, wanted_piece_bytes_);
  while (const auto message = walk.next(entered_)) {
    messages.push_back(*message);
    walk.advance();
  }
  return messages;
}

// A send stands behind the receive that it waits for. Receives and sends each keep their order.
void WindowPlanner::write_flow(size_t number,
                               uint32_t self,
                               Written& written,
                               RankPlan& mine) const {
  const FlowKind kind = flow_at(number).kind;
  const std::vector<Message> receives = walk(number, Walk::Side::kReceives, self);
  size_t next = 0;
  const auto write_receive = [&] {
    const Message& message = receives[next++];
    written.receives[{kind, message.position}] = static_cast<uint32_t>(mine.ops.size());
    const ReceiveOperand operand =
        receive_operand(windows_[message.position.operation], kind, message, self);
    mine.ops.push_back(receive(number, self, message));
    if (operand.after_send) {
      const auto sent = written.sends.find({kind, *operand.after_send});
      const auto at = static_cast<uint32_t>(mine.ops.size() - 1);
      mine.ops.push_back(
          store(mine.ops.back(),
                at,
                sent == written.sends.end() ? std::nullopt : std::optional(sent->second)));
    }
  };
  for (const Message& message : walk(number, Walk::Side::kSends, self)) {
    const SendOperand operand = send_operand(windows_[message.position.operation], kind, message);
    while (operand.after == kind && next < receives.size() &&
           !written.receives.contains({kind, message.position})) {
      write_receive();
    }
    written.sends[{kind, message.position}] = static_cast<uint32_t>(mine.ops.size());
    mine.ops.push_back(send(number, self, message, written.receives));
  }
  while (next < receives.size()) {
    write_receive();
  }
}

PlanOp WindowPlanner::transfer(size_t number,
                               Walk::Side side,
                               uint32_t self,
                               const Message& message) const {
  PlanOp op;
  op.lane = ho::Lane::kInter;
  op.phase = phase_of(flow_at(number).kind);
  op.step = message.hop - (side == Walk::Side::kReceives ? 1 : 0);
  op.peer = GlobalRank(neighbour_of(self, members_, side));
  op.connection = static_cast<uint32_t>(number);
  const uint32_t first = first_chunk_.at({message.position.operation, message.position.owner});
  op.chunks = {ChunkIndex(first + message.position.piece)};
  return op;
}

PlanOp WindowPlanner::send(size_t number,
                           uint32_t self,
                           const Message& message,
                           const Ops& received) const {
  const SendOperand operand =
      send_operand(windows_[message.position.operation], flow_at(number).kind, message);
  PlanOp op = transfer(number, Walk::Side::kSends, self, message);
  op.kind = OpKind::kSend;
  op.src = space_of(operand.source);
  op.dst = op.src;
  if (operand.after) {
    // None where the walk has none: verify() then finds that the place holds nothing yet.
    if (const auto earlier = received.find({*operand.after, message.position});
        earlier != received.end()) {
      op.deps = {earlier->second};
    }
  }
  return op;
}

PlanOp WindowPlanner::receive(size_t number, uint32_t self, const Message& message) const {
  const FlowKind kind = flow_at(number).kind;
  const ReceiveOperand operand =
      receive_operand(windows_[message.position.operation], kind, message, self);
  PlanOp op = transfer(number, Walk::Side::kReceives, self, message);
  op.kind = operand.adds_input ? OpKind::kRecvReduce : OpKind::kRecv;
  op.dst = space_of(operand.destination);
  op.src = operand.adds_input ? Space::kInput : op.dst;
  op.final_sum = operand.final_sum;
  if (operand.after_send) {  // the message arrives at once, its sum is stored later
    op.dst = Space::kScratch;
  }
  return op;
}

PlanOp WindowPlanner::store(const PlanOp& received,
                            uint32_t receive,
                            const std::optional<uint32_t>& send) const {
  PlanOp op = received;
  op.kind = OpKind::kCopy;
  op.src = Space::kScratch;
  op.dst = Space::kOutput;
  op.final_sum = false;
  op.deps = {receive};
  if (send) {  // none where the walk has none: verify() finds that the input is overwritten early
    op.deps.insert(op.deps.begin(), *send);
  }
  return op;
}

Status check_windows(const std::vector<Window>& windows, uint64_t wanted_piece_bytes) {
  uint64_t pieces = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    if (window.members == 0 || window.members != windows.front().members) {
      return invalid("window " + std::to_string(i) + " of a rail of " +
                     std::to_string(window.members) + " members among windows of " +
                     std::to_string(windows.front().members) +
                     ": one plan is of one rail, with at least one member");
    }
    for (uint32_t owner = 0; owner < window.members; ++owner) {
      pieces += piece_count(window, window.segment(owner).byte_count, wanted_piece_bytes);
    }
    // Each piece is at most sent and received by every member, once in each phase.
    if (pieces > kMaxPlanMessages / window.members) {
      return invalid("windows of more than " + std::to_string(kMaxPlanMessages / window.members) +
                     " pieces among " + std::to_string(window.members) +
                     " members: give fewer bytes, members or pieces");
    }
  }
  if (pieces == 0) {
    return invalid("a plan of windows without bytes: nothing moves");
  }
  return {};
}

}  // namespace

Result<WindowPlan> window_plan(const std::vector<Window>& windows, uint64_t wanted_piece_bytes) {
  HORING_TRY(check_windows(windows, wanted_piece_bytes));
  const uint32_t members = windows.front().members;
  HORING_ASSIGN(GroupMap map, GroupMap::from_sizes(std::vector<uint32_t>(members, 1)));
  WindowPlanner planner(windows, wanted_piece_bytes);
  WindowPlan plan{std::move(map), {planner.shared_part(), {}}};
  for (uint32_t self = 0; self < members; ++self) {
    plan.whole.ranks.push_back(planner.ops_of(self));
  }
  return plan;
}

}  // namespace ho::plugin::rail
