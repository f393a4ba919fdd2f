// What comes from the peer, and which receive takes it.
#include "exec/message_peer.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

namespace ho {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 46;
constexpr uint64_t kCreditBatchBytes = MessagePeer::kHeldBytes / 4;

void copy_message(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

int32_t tag_of(const Frame& frame) {
  return static_cast<int32_t>(frame.op_index);
}

uint64_t cost_of(uint64_t bytes) {
  return bytes + MessagePeer::kMessageCost;
}

}  // namespace

MessagePeer::MessagePeer(const Identity& identity, Link* mine, Link* theirs) : identity_(identity) {
  if (mine != nullptr) {
    links_.emplace_back().link = mine;
    links_.back().carries_mine = true;
  }
  if (theirs != mine) {
    links_.emplace_back().link = theirs;
  }
}

bool MessagePeer::over_network() const {
  return !links_.empty() && links_.front().link->over_network();
}

bool MessagePeer::awaits_release() const {
  return over_network() && std::ranges::any_of(links_, [](const LinkState& state) {
           return !state.unreleased.empty() && !state.outgoing;
         });
}

Status MessagePeer::violation(const std::string& what) const {
  return {StatusCode::kProtocol,
          fmt::format("message from rank {} to rank {}: {}; the ranks run different versions, or "
                      "the peer is broken",
                      identity_.peer.value(),
                      identity_.self.value(),
                      what)};
}

// A peer that is gone concerns those who need it: see lost_for.
Status MessagePeer::note(Status& error, const Status& status) {
  if (status.code() != StatusCode::kPeerLost && status.code() != StatusCode::kConnection) {
    return status;
  }
  error = status;
  return {};
}

void MessagePeer::end(const Pass& pass, Transfer& transfer) {
  if (transfer.source != nullptr && transfer.from) {
    *transfer.source = static_cast<int32_t>(transfer.from->value());
  }
  transfer.outcome = Status();
  pass.ended->push_back(&transfer);
  *pass.moved = true;
}

std::optional<RunError> MessagePeer::make_progress(PostedReceives& receives,
                                                   std::vector<Transfer*>* ended,
                                                   bool* moved) {
  const Pass pass{&receives, ended, moved};
  served_any_source_ = false;
  Status status = match_held(pass);
  if (status.ok() && links_.empty()) {
    status = send_to_self(pass);
  }
  for (LinkState& state : links_) {
    if (status.ok() && state.recv_error.ok()) {
      status = receive_from(pass, state);
    }
    if (status.ok() && state.send_error.ok()) {
      status = send_on(pass, state);
    }
    collect_released(pass, state);
  }
  if (status.ok()) {
    return std::nullopt;
  }
  return RunError{status, identity_.peer};
}

Status MessagePeer::check_same(const Transfer& receive, DType dtype, uint64_t count) const {
  if (receive.dtype == dtype && receive.count == count) {
    return {};
  }
  return {StatusCode::kMismatch,
          fmt::format("{}: rank {} receives {} but rank {} sent {} {} with tag {}; a send and the "
                      "receive that takes it must have the same count and type",
                      receive.name(),
                      identity_.self.value(),
                      receive.shape(),
                      identity_.peer.value(),
                      count,
                      to_string(dtype),
                      receive.tag)};
}

// nullptr: none is posted, or it is one from any rank and this peer has had its turn.
Transfer* MessagePeer::take_receive(const Pass& pass, int32_t tag) {
  Transfer* receive = pass.receives->first_for(identity_.peer, tag);
  if (receive == nullptr) {
    return nullptr;
  }
  if (!receive->peer) {
    if (served_any_source_) {
      match_again_ = true;
      return nullptr;
    }
    served_any_source_ = true;
  }
  pass.receives->remove(*receive);
  receive->from = identity_.peer;
  return receive;
}

Status MessagePeer::match_held(const Pass& pass) {
  if (!match_again_ && seen_posts_ == pass.receives->posts()) {
    return {};
  }
  match_again_ = false;
  seen_posts_ = pass.receives->posts();
  for (auto each = held_.begin(); each != held_.end();) {
    HORING_TRY(match_first(pass, each->second, each->first));
    each = each->second.empty() ? held_.erase(each) : std::next(each);
  }
  return {};
}

Status MessagePeer::match_first(const Pass& pass,
                                std::deque<std::shared_ptr<Arrival>>& queue,
                                int32_t tag) {
  while (!queue.empty()) {
    Transfer* receive = take_receive(pass, tag);
    if (receive == nullptr) {
      break;
    }
    const std::shared_ptr<Arrival> arrival = std::move(queue.front());
    queue.pop_front();
    HORING_TRY(bind(pass, *arrival, *receive));
  }
  return {};
}

Status MessagePeer::bind(const Pass& pass, Arrival& arrival, Transfer& receive) {
  *pass.moved = true;
  HORING_TRY(check_same(receive, arrival.dtype, arrival.count));
  arrival.receiver = &receive;
  if (!arrival.eager && arrival.sender == nullptr) {
    clear(pass, arrival.number, receive);
  } else if (arrival.complete) {
    deliver(pass, arrival);
  }
  return {};
}

void MessagePeer::deliver(const Pass& pass, Arrival& arrival) {
  Transfer& receive = *arrival.receiver;
  if (arrival.sender != nullptr) {
    copy_message(receive.into, arrival.sender->data, receive.bytes());
    end(pass, *arrival.sender);
  } else {
    copy_message(receive.into, arrival.held.data(), receive.bytes());
    held_bytes_ -= arrival.held.size();
    give_back(cost_of(receive.bytes()));
  }
  end(pass, receive);
}

void MessagePeer::clear(const Pass& pass, uint32_t number, Transfer& receive) {
  --requests_in_;
  theirs().control.push_back(frame_of(Kind::kClear, number));
  if (receive.bytes() == 0) {
    end(pass, receive);
  } else {
    receiving_.emplace(number, &receive);
  }
}

void MessagePeer::give_back(uint64_t bytes) {
  owed_ += bytes;
  if (links_.empty()) {
    held_cost_ -= std::exchange(owed_, 0);
  } else if (owed_ >= kCreditBatchBytes) {
    Frame credit = frame_of(Kind::kCredit, 0);
    credit.count = owed_;
    theirs().control.push_back(credit);
    held_cost_ -= std::exchange(owed_, 0);
  }
}

// The rank's own messages: held as those of others are, but what does not fit stays in the send.
Status MessagePeer::send_to_self(const Pass& pass) {
  while (!fresh_.empty()) {
    Transfer& sends = *fresh_.front();
    const bool first = held_.count(sends.tag) == 0;
    Transfer* receive = first ? take_receive(pass, sends.tag) : nullptr;
    fresh_.pop_front();
    ++arrived_;
    auto arrival = std::make_shared<Arrival>();
    arrival->dtype = sends.dtype;
    arrival->count = sends.count;
    arrival->complete = true;
    arrival->sender = &sends;
    *pass.moved = true;
    if (receive != nullptr) {
      HORING_TRY(bind(pass, *arrival, *receive));
      continue;
    }
    if (held_cost_ + cost_of(sends.bytes()) <= kHeldBytes) {
      held_cost_ += cost_of(sends.bytes());
      held_bytes_ += sends.bytes();
      arrival->held.assign(sends.data, sends.data + sends.bytes());
      arrival->eager = true;
      arrival->sender = nullptr;
      end(pass, sends);
    }
    held_[sends.tag].push_back(std::move(arrival));
  }
  return {};
}

Status MessagePeer::receive_from(const Pass& pass, LinkState& state) {
  for (int frames = 0; frames < kFramesPerPass; ++frames) {
    if (!state.incoming) {
      const bool awaited = state.carries_mine && !uncleared_.empty();
      const auto frame = state.link->try_peek(awaited);
      if (!frame.ok()) {
        return note(state.recv_error, frame.status());
      }
      if (!frame->has_value()) {
        return {};
      }
      HORING_ASSIGN(const bool begun, begin(pass, state, **frame));
      if (!begun) {
        return {};
      }
    }
    const Bytes to = state.incoming->to;
    const auto came = state.link->try_recv(state.incoming->frame,
                                           std::span(&to, to.empty() ? size_t{0} : size_t{1}));
    if (!came.ok()) {
      return note(state.recv_error, came.status());
    }
    if (!*came) {
      return {};
    }
    *pass.moved = true;
    HORING_TRY(complete(pass, state));
  }
  return {};
}

Result<bool> MessagePeer::begin(const Pass& pass, LinkState& state, const Frame& frame) {
  if (frame.collective != kMessage || frame.communicator != identity_.communicator) {
    return violation("a frame of another kind or communicator");
  }
  switch (static_cast<Kind>(frame.phase)) {
    case Kind::kEager:
    case Kind::kRequest:
      return begin_message(pass, state, frame);
    case Kind::kData:
      return begin_data(state, frame);
    case Kind::kClear:
    case Kind::kCredit:
      if (frame.payload_bytes != 0) {
        return violation("a control frame with a payload");
      }
      state.incoming = Incoming{frame, {}, nullptr, nullptr};
      return true;
  }
  return violation(fmt::format("a frame of unknown kind {}", frame.phase));
}

Status MessagePeer::check_message(const Frame& frame) const {
  if (frame.sequence != arrived_ + 1) {
    return violation(fmt::format("number {} where {} is next", frame.sequence, arrived_ + 1));
  }
  if (frame.dtype >= kDTypeCount) {
    return violation(fmt::format("type {} does not exist", frame.dtype));
  }
  const size_t element = size_bytes(static_cast<DType>(frame.dtype));
  if (frame.count > kMaxMessageBytes / element) {
    return violation(fmt::format("{} elements", frame.count));
  }
  const bool eager = static_cast<Kind>(frame.phase) == Kind::kEager;
  const uint64_t bytes = frame.count * element;
  if (frame.payload_bytes != (eager ? bytes : 0)) {
    return violation(fmt::format("{} bytes with it, {} announced", frame.payload_bytes, bytes));
  }
  if (eager && held_cost_ + cost_of(bytes) > kHeldBytes) {
    return violation(fmt::format("{} bytes beyond the {} that may be held", bytes, kHeldBytes));
  }
  if (!eager && requests_in_ >= kMaxRequests) {
    return violation(fmt::format("more than {} messages announced", kMaxRequests));
  }
  return {};
}

Result<bool> MessagePeer::begin_message(const Pass& pass, LinkState& state, const Frame& frame) {
  HORING_TRY(check_message(frame));
  const int32_t tag = tag_of(frame);
  Transfer* receive = nullptr;
  if (held_.count(tag) == 0) {
    if (served_any_source_ && pass.receives->first_for(identity_.peer, tag) != nullptr &&
        !pass.receives->first_for(identity_.peer, tag)->peer) {
      return false;
    }
    receive = take_receive(pass, tag);
  }
  auto arrival = std::make_shared<Arrival>();
  arrival->number = frame.sequence;
  arrival->dtype = static_cast<DType>(frame.dtype);
  arrival->count = frame.count;
  arrival->eager = static_cast<Kind>(frame.phase) == Kind::kEager;
  Incoming incoming{frame, {}, arrival, receive};
  if (receive != nullptr) {
    HORING_TRY(check_same(*receive, arrival->dtype, arrival->count));
    incoming.to = Bytes(receive->into, frame.payload_bytes);
  } else {
    arrival->held.resize(frame.payload_bytes);
    held_bytes_ += frame.payload_bytes;
    incoming.to = Bytes(arrival->held);
    held_[tag].push_back(arrival);
  }
  state.incoming = std::move(incoming);
  return true;
}

Result<bool> MessagePeer::begin_data(LinkState& state, const Frame& frame) {
  const auto found = receiving_.find(frame.sequence);
  if (found == receiving_.end()) {
    return violation(fmt::format("data of message {}, which was not asked for", frame.sequence));
  }
  Transfer& receive = *found->second;
  const uint64_t left = receive.bytes() - receive.moved_bytes;
  if (frame.count != receive.moved_bytes || frame.payload_bytes == 0 ||
      frame.payload_bytes > left) {
    return violation(fmt::format("{} bytes at {} of message {}, of which {} of {} are here",
                                 frame.payload_bytes,
                                 frame.count,
                                 frame.sequence,
                                 receive.moved_bytes,
                                 receive.bytes()));
  }
  state.incoming = Incoming{
      frame, Bytes(receive.into + receive.moved_bytes, frame.payload_bytes), nullptr, &receive};
  return true;
}

Status MessagePeer::complete(const Pass& pass, LinkState& state) {
  Incoming incoming = *std::exchange(state.incoming, std::nullopt);
  switch (static_cast<Kind>(incoming.frame.phase)) {
    case Kind::kEager:
    case Kind::kRequest:
      complete_message(pass, incoming);
      return {};
    case Kind::kClear:
      return on_clear(pass, incoming.frame);
    case Kind::kCredit:
      return on_credit(incoming.frame);
    case Kind::kData:
      break;
  }
  Transfer& receive = *incoming.receiver;
  receive.moved_bytes += incoming.frame.payload_bytes;
  if (receive.moved_bytes == receive.bytes()) {
    receiving_.erase(incoming.frame.sequence);
    end(pass, receive);
  }
  return {};
}

void MessagePeer::complete_message(const Pass& pass, Incoming& incoming) {
  Arrival& arrival = *incoming.arrival;
  ++arrived_;
  arrival.complete = true;
  if (arrival.eager) {
    held_cost_ += cost_of(incoming.frame.payload_bytes);
    if (incoming.receiver != nullptr) {
      give_back(cost_of(incoming.frame.payload_bytes));
      end(pass, *incoming.receiver);
    } else if (arrival.receiver != nullptr) {
      deliver(pass, arrival);
    }
    return;
  }
  ++requests_in_;
  if (incoming.receiver != nullptr) {
    clear(pass, arrival.number, *incoming.receiver);
  }
}

Status MessagePeer::on_clear(const Pass& pass, const Frame& frame) {
  const auto found = uncleared_.find(frame.sequence);
  if (found == uncleared_.end()) {
    return violation(fmt::format("it asks for message {}, which does not wait", frame.sequence));
  }
  Transfer& transfer = *found->second;
  uncleared_.erase(found);
  --requests_out_;
  transfer.cleared = true;
  if (transfer.bytes() == 0) {
    end(pass, transfer);
  } else {
    cleared_.push_back(&transfer);
  }
  return {};
}

Status MessagePeer::on_credit(const Frame& frame) {
  if (frame.count > kHeldBytes - credit_) {
    return violation(
        fmt::format("{} bytes given back, {} are out", frame.count, kHeldBytes - credit_));
  }
  credit_ += frame.count;
  return {};
}

}  // namespace ho
