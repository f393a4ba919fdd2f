// Which memory a member reads and writes for each message of a window: what the engine (flow.cpp,
// ring.cpp) does with it and what its plan (window_plan.cpp) has of it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/rail/window.hpp"

namespace ho::plugin::rail {

// Flows of reductions first, then those of broadcasts. Each is a connection between neighbours.
inline constexpr size_t kFlowCount = 2 * size_t{kOwnerFlows};

[[nodiscard]] inline Walk::Flow flow_at(size_t number) {
  return {number < kOwnerFlows ? FlowKind::kReduction : FlowKind::kBroadcast,
          static_cast<uint32_t>(number % kOwnerFlows)};
}

// The member that a member sends to, or receives from.
[[nodiscard]] inline uint32_t neighbour_of(uint32_t self, uint32_t members, Walk::Side side) {
  return (self + (side == Walk::Side::kSends ? 1 : members - 1)) % members;
}

// kInput: the member's contribution or, in an all-gather, its own block. kScratch: room for one
// piece.
enum class Memory : uint8_t { kInput, kResult, kScratch };

struct SendOperand {
  Memory source = Memory::kInput;
  // The receive of the same place that must be complete: on this kind's flow.
  std::optional<FlowKind> after;
};

[[nodiscard]] inline SendOperand send_operand(const Window& window,
                                              FlowKind kind,
                                              const Message& message) {
  if (kind == FlowKind::kReduction) {
    return message.hop == 0 ? SendOperand{} : SendOperand{Memory::kScratch, FlowKind::kReduction};
  }
  if (message.hop > 0) {
    return {Memory::kResult, FlowKind::kBroadcast};
  }
  return window.kind == WindowKind::kAllReduce ? SendOperand{Memory::kResult, FlowKind::kReduction}
                                               : SendOperand{};
}

struct ReceiveOperand {
  bool adds_input = false;  // what has arrived is added to the member's contribution
  bool final_sum = false;   // which completes the sum
  Memory destination = Memory::kResult;
  // This member's send that must be complete before the destination is written, where input and
  // result are the same memory.
  std::optional<Position> after_send;
};

[[nodiscard]] inline ReceiveOperand receive_operand(const Window& window,
                                                    FlowKind kind,
                                                    const Message& message,
                                                    uint32_t self) {
  if (kind == FlowKind::kBroadcast) {
    return {};
  }
  const bool final_sum = message.position.owner == self;
  ReceiveOperand operand{
      true, final_sum, final_sum ? Memory::kResult : Memory::kScratch, std::nullopt};
  if (window.exchanges()) {  // both reductions are of the same bytes
    operand.after_send = message.position;
    operand.after_send->owner = 1 - self;
  }
  return operand;
}

// Whether a member copies its own segment from input to result: no message brings it.
[[nodiscard]] inline bool copies_own_segment(const Window& window) {
  return window.members == 1 || window.kind == WindowKind::kAllGather;
}

}  // namespace ho::plugin::rail
