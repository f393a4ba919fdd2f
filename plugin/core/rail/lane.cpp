// Receives are posted as far ahead as calls have been entered, in the lane's order, and complete in
// it. A message can be sent when it is here: at once where its flow begins with this member's own
// bytes, or when the receive of the same place has completed on this lane, or, where a broadcast
// spreads what this member has reduced, on the lane of reductions.
#include "core/rail/lane.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "core/rail/operands.hpp"
#include "reduce/reduce.hpp"

namespace ho::plugin::rail {
namespace {

// Deterministic order makes tags needless; they show a plugin that breaks it.
int32_t tag_of(const Place& place) {
  constexpr uint64_t kTagMask = 0x7fffffff;
  return static_cast<int32_t>((place.operation * 8191 + uint64_t{place.owner} * 127 + place.piece) &
                              kTagMask);
}

}  // namespace

Lane::Lane(const Setup& setup)
    : setup_(setup),
      sends_(setup.lane, Walk::Side::kSends, setup.self, setup.wanted_piece_bytes),
      receives_(setup.lane, Walk::Side::kReceives, setup.self, setup.wanted_piece_bytes) {
  if (setup.scratch != nullptr) {
    free_slots_.reserve(kSlots);
    for (size_t i = 0; i < kSlots; ++i) {
      free_slots_.push_back(setup.scratch + i * most_piece_bytes(setup.wanted_piece_bytes));
    }
  }
}

uint32_t Lane::neighbour(Walk::Side side) const {
  return neighbour_of(setup_.self, setup_.members, side);
}

Status Lane::failed(Reply reply, Walk::Side side, const char* what, const Message& message) const {
  return {
      StatusCode::kConnection,
      fmt::format("lane {}, {} member {}: {} of call {}, block {}, piece {} of the {} failed: "
                  "{} reported {}; its own line before this one says why, and so may the output "
                  "of that member",
                  setup_.number,
                  side == Walk::Side::kSends ? "to" : "from",
                  neighbour(side),
                  what,
                  message.place.operation,
                  message.place.owner,
                  message.place.piece,
                  setup_.lane.kind == FlowKind::kReduction ? "reduction" : "broadcast",
                  setup_.driver->name(),
                  to_string(reply))};
}

Result<bool> Lane::progress(Calls& calls, const Lane* other) {
  HORING_ASSIGN(const bool received, end_receives(calls, other));
  HORING_ASSIGN(const bool sent, end_sends(calls));
  HORING_ASSIGN(const bool receiving, begin_receives(calls));
  HORING_ASSIGN(const bool sending, begin_sends(calls, other));
  return received || sent || receiving || sending;
}

Result<bool> Lane::begin_receives(Calls& calls) {
  bool any = false;
  const bool reduces = setup_.lane.kind == FlowKind::kReduction;
  while (!incoming_.full() && !(reduces && free_slots_.empty())) {
    const auto message = receives_.next(calls);
    if (!message) {
      break;
    }
    const RailCall& call = calls.at(message->place.operation);
    Incoming incoming{*message, nullptr, reduces ? free_slots_.back() : nullptr};
    void* data = reduces ? incoming.slot : call.result + message->bytes.offset;
    const Registration& memory = reduces ? *setup_.scratch_memory : *call.result_memory;
    const size_t bytes = message->bytes.byte_count;
    const int32_t tag = tag_of(message->place);
    void* handle = memory.for_receives[setup_.number];
    void* profile = nullptr;
    const Reply reply = setup_.driver->irecv(
        setup_.link.from_previous, 1, &data, &bytes, &tag, &handle, &profile, &incoming.request);
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

bool Lane::must_wait(const RailCall& call, const Message& message, const Lane* other) const {
  const auto sent = receive_operand(call.window, setup_.lane.kind, message, setup_.self).after_send;
  return sent && call.mine == call.result && (!other->sent_.has_value() || *other->sent_ < *sent);
}

Result<bool> Lane::end_receives(Calls& calls, const Lane* other) {
  bool any = false;
  while (!incoming_.empty()) {
    Incoming& head = incoming_.front();
    if (must_wait(calls.at(head.message.place.operation), head.message, other)) {
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
                                head.message.place.piece,
                                head.message.place.owner,
                                head.message.place.operation,
                                head.message.bytes.byte_count));
    }
    take(calls.at(head.message.place.operation), head);
    received_ = head.message.place;
    calls.message_done(head.message.place.operation);
    incoming_.pop();
    any = true;
  }
  return any;
}

// A piece of a reduction takes up this member's share; at its end it is the result.
void Lane::take(const RailCall& call, const Incoming& incoming) {
  const Message& message = incoming.message;
  const ReceiveOperand operand =
      receive_operand(call.window, setup_.lane.kind, message, setup_.self);
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
    reduced_.push({message.place, incoming.slot});
  }
}

const std::byte* Lane::source_of(const RailCall& call,
                                 const Message& message,
                                 const Lane* reductions) {
  const SendOperand operand = send_operand(call.window, setup_.lane.kind, message);
  if (operand.source == Memory::kScratch) {
    const bool here = !reduced_.empty() && reduced_.front().place == message.place;
    return here ? reduced_.front().slot : nullptr;
  }
  if (operand.after) {
    const Lane& receiving = *operand.after == setup_.lane.kind ? *this : *reductions;
    if (!receiving.has_received(message.place)) {
      return nullptr;
    }
  }
  if (operand.source == Memory::kResult) {
    return call.result + message.bytes.offset;
  }
  return setup_.lane.kind == FlowKind::kReduction
             ? call.contribution(message.bytes.offset)
             : call.own_input(message.bytes.offset, setup_.self);
}

Result<bool> Lane::begin_sends(Calls& calls, const Lane* reductions) {
  bool any = false;
  while (!outgoing_.full()) {
    const auto message = sends_.next(calls);
    if (!message) {
      break;
    }
    const RailCall& call = calls.at(message->place.operation);
    const std::byte* const source = source_of(call, *message, reductions);
    if (source == nullptr) {
      break;
    }
    const bool from_slot =
        send_operand(call.window, setup_.lane.kind, *message).source == Memory::kScratch;
    const Registration* const memory =
        from_slot ? setup_.scratch_memory
                  : (call.mine_memory != nullptr && call.mine_memory->covers(source, 1)
                         ? call.mine_memory
                         : call.result_memory);
    Outgoing outgoing{*message, nullptr, nullptr};
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): NCCL's interface does not say const
    void* const data = const_cast<std::byte*>(source);
    const Reply reply = setup_.driver->isend(setup_.link.to_next,
                                             data,
                                             message->bytes.byte_count,
                                             tag_of(message->place),
                                             memory->for_sends[setup_.number],
                                             nullptr,
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

Result<bool> Lane::end_sends(Calls& calls) {
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
    sent_ = head.message.place;
    calls.message_done(head.message.place.operation);
    outgoing_.pop();
    any = true;
  }
  return any;
}

}  // namespace ho::plugin::rail
