// What goes to the peer: control frames first, then messages in their order, then pieces of cleared
// messages in turn.
#include <algorithm>

#include "exec/message_peer.hpp"

namespace ho {

Frame MessagePeer::frame_of(Kind kind, uint32_t number) const {
  Frame frame;
  frame.collective = kMessage;
  frame.phase = static_cast<uint8_t>(kind);
  frame.communicator = identity_.communicator;
  frame.sequence = number;
  return frame;
}

void MessagePeer::send(Transfer& transfer) {
  transfer.number = ++sent_;
  fresh_.push_back(&transfer);
}

Status MessagePeer::send_on(const Pass& pass, LinkState& state) {
  for (int frames = 0; frames < kFramesPerPass; ++frames) {
    if (!state.outgoing && !choose(state)) {
      return {};
    }
    const Outgoing& head = *state.outgoing;
    const auto accepted = state.link->try_send(
        head.frame, std::span(&head.payload, head.payload.empty() ? size_t{0} : size_t{1}));
    if (!accepted.ok()) {
      return note(state.send_error, accepted.status());
    }
    if (!*accepted) {
      return {};
    }
    *pass.moved = true;
    ++state.accepted;
    if (head.last) {
      state.unreleased.emplace_back(state.accepted, head.transfer);
    } else if (static_cast<Kind>(head.frame.phase) == Kind::kData) {
      cleared_.push_back(head.transfer);
    }
    state.outgoing.reset();
  }
  return {};
}

bool MessagePeer::choose(LinkState& state) {
  if (!state.control.empty()) {
    state.outgoing = Outgoing{state.control.front(), {}, nullptr, false};
    state.control.pop_front();
    return true;
  }
  return state.carries_mine && (choose_message(state) || choose_data(state));
}

bool MessagePeer::choose_message(LinkState& state) {
  if (fresh_.empty()) {
    return false;
  }
  Transfer& transfer = *fresh_.front();
  const uint64_t bytes = transfer.bytes();
  const bool eager = bytes + kMessageCost <= credit_;
  if (!eager && requests_out_ == kMaxRequests) {
    return false;
  }
  Frame frame = frame_of(eager ? Kind::kEager : Kind::kRequest, transfer.number);
  frame.op_index = static_cast<uint32_t>(transfer.tag);
  frame.dtype = static_cast<uint8_t>(transfer.dtype);
  frame.count = transfer.count;
  ConstBytes payload;
  if (eager) {
    frame.payload_bytes = static_cast<uint32_t>(bytes);
    payload = ConstBytes(transfer.data, bytes);
    credit_ -= bytes + kMessageCost;
    transfer.lent = true;
  } else {
    ++requests_out_;
    uncleared_.emplace(transfer.number, &transfer);
  }
  state.outgoing = Outgoing{frame, payload, eager ? &transfer : nullptr, eager};
  fresh_.pop_front();
  return true;
}

bool MessagePeer::choose_data(LinkState& state) {
  if (cleared_.empty()) {
    return false;
  }
  Transfer& transfer = *cleared_.front();
  cleared_.pop_front();
  const uint64_t bytes = std::min(kPieceBytes, transfer.bytes() - transfer.moved_bytes);
  Frame frame = frame_of(Kind::kData, transfer.number);
  frame.count = transfer.moved_bytes;
  frame.payload_bytes = static_cast<uint32_t>(bytes);
  const ConstBytes payload(transfer.data + transfer.moved_bytes, bytes);
  transfer.moved_bytes += bytes;
  transfer.lent = true;
  state.outgoing = Outgoing{frame, payload, &transfer, transfer.moved_bytes == transfer.bytes()};
  return true;
}

void MessagePeer::collect_released(const Pass& pass, LinkState& state) {
  if (state.unreleased.empty()) {
    return;
  }
  const uint64_t released = state.link->released();
  while (!state.unreleased.empty() && state.unreleased.front().first <= released) {
    end(pass, *state.unreleased.front().second);
    state.unreleased.pop_front();
  }
}

Status MessagePeer::lost_for(const Transfer& transfer) const {
  if (links_.empty()) {
    return {};
  }
  const LinkState& state = transfer.sends ? links_.front() : links_.back();
  return transfer.sends && !state.send_error.ok() ? state.send_error : state.recv_error;
}

void MessagePeer::forget(const Transfer& transfer) {
  std::erase(fresh_, &transfer);
  std::erase(cleared_, &transfer);
  std::erase_if(uncleared_, [&](const auto& each) { return each.second == &transfer; });
  std::erase_if(receiving_, [&](const auto& each) { return each.second == &transfer; });
  for (LinkState& state : links_) {
    std::erase_if(state.unreleased, [&](const auto& each) { return each.second == &transfer; });
    if (state.outgoing && state.outgoing->transfer == &transfer) {
      state.outgoing.reset();
      state.send_error =
          Status(StatusCode::kPeerLost, "a message to a rank that has left was given up");
    }
    if (state.incoming && state.incoming->receiver == &transfer) {
      state.incoming.reset();
      state.recv_error =
          Status(StatusCode::kPeerLost, "a message of a rank that has left was given up");
    }
  }
  for (auto& [tag, queue] : held_) {
    std::erase_if(queue, [&](const auto& arrival) { return arrival->sender == &transfer; });
  }
  std::erase_if(held_, [](const auto& each) { return each.second.empty(); });
}

}  // namespace ho
