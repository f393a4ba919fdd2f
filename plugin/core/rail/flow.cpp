// Receives are posted as far ahead as calls have been entered, in the flow's order, and complete
// in it. A message can be sent when it is here: at once where its block begins with this member's
// own bytes, else when the receive of the same place has completed on this flow. Where a
// broadcast spreads what this member has reduced, the receive is on the flow of reductions.
#include "core/rail/flow.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "core/rail/operands.hpp"
#include "reduce/reduce.hpp"

namespace ho::plugin::rail {
namespace {

// Deterministic order makes tags needless; they show a plugin that breaks it.
int32_t tag_of(const Position& position) {
  constexpr uint64_t kTagMask = 0x7fffffff;
  return static_cast<int32_t>(
      (position.operation * 8191 + uint64_t{position.owner} * 127 + position.piece) & kTagMask);
}

}  // namespace

Flow::Flow(const Setup& setup)
    : setup_(setup),
      sends_(setup.flow, Walk::Side::kSends, setup.self, setup.wanted_piece_bytes),
      receives_(setup.flow, Walk::Side::kReceives, setup.self, setup.wanted_piece_bytes) {
  if (setup.scratch != nullptr) {
    free_slots_.reserve(kSlots);
    for (size_t i = 0; i < kSlots; ++i) {
      free_slots_.push_back(setup.scratch + i * most_piece_bytes(setup.wanted_piece_bytes));
    }
  }
}

uint32_t Flow::neighbour(Walk::Side side) const {
  return neighbour_of(setup_.self, setup_.members, side);
}

Status Flow::failed(Reply reply, Walk::Side side, const char* what, const Message& message) const {
  return {StatusCode::kConnection,
          fmt::format("flow {}, {} member {}: {} of call {}, block {}, piece {} of the {} failed: "
                      "{} reported {}; see its own line before this one, and the output "
                      "of that member",
                      setup_.number,
                      side == Walk::Side::kSends ? "to" : "from",
                      neighbour(side),
                      what,
                      message.position.operation,
                      message.position.owner,
                      message.position.piece,
                      setup_.flow.kind == FlowKind::kReduction ? "reduction" : "broadcast",
                      setup_.driver->name(),
                      to_string(reply))};
}

Result<bool> Flow::progress(Calls& calls, const Flow* other) {
  HORING_ASSIGN(const bool received, end_receives(calls, other));
  HORING_ASSIGN(const bool sent, end_sends(calls));
  HORING_ASSIGN(const bool receiving, begin_receives(calls));
  HORING_ASSIGN(const bool sending, begin_sends(calls, other));
  return received || sent || receiving || sending;
}

Result<bool> Flow::begin_receives(Calls& calls) {
  bool any = false;
  const bool reduces = setup_.flow.kind == FlowKind::kReduction;
  while (!incoming_.full() && !(reduces && free_slots_.empty())) {
    const auto message = receives_.next(calls);
    if (!message) {
      break;
    }
    const RailCall& call = calls.at(message->position.operation);
    Incoming incoming{*message, nullptr, reduces ? free_slots_.back() : nullptr};
    void* data = reduces ? incoming.slot : call.result + message->bytes.offset;
    const Registration& memory = reduces ? *setup_.scratch_memory : *call.result_memory;
    const size_t bytes = message->bytes.byte_count;
    const int32_t tag = tag_of(message->position);
    void* handle = memory.for_receives[setup_.number];
    void* profile = nullptr;
    const Reply reply = setup_.driver->irecv(
        setup_.link.from_previous, {1, &data, &bytes, &tag, &handle, &profile}, &incoming.request);
    if (reply != Reply::kSuccess) {
      return failed(reply, Walk::Side::kReceives, "posting the receive", *message);
    }
    if (incoming.request == nullptr) {
      break;
    }
    if (reduces) {
      free_slots_.pop_back();
    }
    incoming_.push(incoming);
    receives_.advance();
    any = true;
  }
  return any;
}

bool Flow::must_wait(const RailCall& call, const Message& message, const Flow* other) const {
  const auto sent = receive_operand(call.window, setup_.flow.kind, message, setup_.self).after_send;
  return sent && call.mine == call.result && (!other->sent_.has_value() || *other->sent_ < *sent);
}

Result<bool> Flow::end_receives(Calls& calls, const Flow* other) {
  bool any = false;
  while (!incoming_.empty()) {
    Incoming& head = incoming_.front();
    if (must_wait(calls.at(head.message.position.operation), head.message, other)) {
      break;
    }
    int32_t done = 0;
    int32_t bytes = 0;
    const Reply reply = setup_.driver->test(head.request, &done, &bytes);
    if (reply != Reply::kSuccess) {
      return failed(reply, Walk::Side::kReceives, "the receive", head.message);
    }
    if (done == 0) {
      break;
    }
    if (static_cast<uint64_t>(bytes) != head.message.bytes.byte_count) {
      return Status(StatusCode::kMismatch,
                    fmt::format("member {} sent {} bytes where piece {} of block {} of call {} has "
                                "{}: the members made different calls; are the sizes, the settings "
                                "and the NCCL release the same on all nodes?",
                                neighbour(Walk::Side::kReceives),
                                bytes,
                                head.message.position.piece,
                                head.message.position.owner,
                                head.message.position.operation,
                                head.message.bytes.byte_count));
    }
    take(calls.at(head.message.position.operation), head);
    received_ = head.message.position;
    calls.message_done(head.message.position.operation);
    incoming_.pop();
    any = true;
  }
  return any;
}

// A piece of a reduction takes up this member's share; at its end it is the result.
void Flow::take(const RailCall& call, const Incoming& incoming) {
  const Message& message = incoming.message;
  const ReceiveOperand operand =
      receive_operand(call.window, setup_.flow.kind, message, setup_.self);
  if (!operand.adds_input) {
    return;
  }
  const std::byte* const mine = call.contribution(message.bytes.offset);
  const size_t count = message.bytes.byte_count / call.window.element_bytes;
  if (operand.destination == Memory::kResult) {
    // Both members of an exchange reduce the same bytes: in the same order.
    const bool mine_first = call.window.exchanges() && setup_.self == 0;
    reduce(call.dtype,
           call.op,
           call.reduced(message.bytes.offset, setup_.self),
           mine_first ? mine : incoming.slot,
           mine_first ? incoming.slot : mine,
           count);
    free_slots_.push_back(incoming.slot);
  } else {
    reduce(call.dtype, call.op, incoming.slot, incoming.slot, mine, count);
    reduced_.push({message.position, incoming.slot});
  }
}

const std::byte* Flow::source_of(const RailCall& call,
                                 const Message& message,
                                 const Flow* reductions) {
  const SendOperand operand = send_operand(call.window, setup_.flow.kind, message);
  if (operand.source == Memory::kScratch) {
    const bool here = !reduced_.empty() && reduced_.front().position == message.position;
    return here ? reduced_.front().slot : nullptr;
  }
  if (operand.after) {
    const Flow& receiving = *operand.after == setup_.flow.kind ? *this : *reductions;
    if (!receiving.has_received(message.position)) {
      return nullptr;
    }
  }
  if (operand.source == Memory::kResult) {
    return call.result + message.bytes.offset;
  }
  return setup_.flow.kind == FlowKind::kReduction
             ? call.contribution(message.bytes.offset)
             : call.own_input(message.bytes.offset, setup_.self);
}

Result<bool> Flow::begin_sends(Calls& calls, const Flow* reductions) {
  bool any = false;
  while (!outgoing_.full()) {
    const auto message = sends_.next(calls);
    if (!message) {
      break;
    }
    const RailCall& call = calls.at(message->position.operation);
    const std::byte* const source = source_of(call, *message, reductions);
    if (source == nullptr) {
      break;
    }
    const bool from_slot =
        send_operand(call.window, setup_.flow.kind, *message).source == Memory::kScratch;
    const Registration* const memory =
        from_slot ? setup_.scratch_memory
                  : (call.mine_memory != nullptr && call.mine_memory->covers(source, 1)
                         ? call.mine_memory
                         : call.result_memory);
    Outgoing outgoing{*message, nullptr, nullptr};
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): NCCL's interface has no const
    void* const data = const_cast<std::byte*>(source);
    const Reply reply = setup_.driver->isend(setup_.link.to_next,
                                             {data,
                                              message->bytes.byte_count,
                                              tag_of(message->position),
                                              memory->for_sends[setup_.number],
                                              nullptr},
                                             &outgoing.request);
    if (reply != Reply::kSuccess) {
      return failed(reply, Walk::Side::kSends, "posting the send", *message);
    }
    if (outgoing.request == nullptr) {
      break;
    }
    if (from_slot) {
      outgoing.slot = reduced_.front().slot;
      reduced_.pop();
    }
    outgoing_.push(outgoing);
    sends_.advance();
    any = true;
  }
  return any;
}

Result<bool> Flow::end_sends(Calls& calls) {
  bool any = false;
  while (!outgoing_.empty()) {
    const Outgoing& head = outgoing_.front();
    int32_t done = 0;
    const Reply reply = setup_.driver->test(head.request, &done, nullptr);
    if (reply != Reply::kSuccess) {
      return failed(reply, Walk::Side::kSends, "the send", head.message);
    }
    if (done == 0) {
      break;
    }
    if (head.slot != nullptr) {
      free_slots_.push_back(head.slot);
    }
    sent_ = head.message.position;
    calls.message_done(head.message.position.operation);
    outgoing_.pop();
    any = true;
  }
  return any;
}

}  // namespace ho::plugin::rail
