#include "transport/tcp/tcp_link.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"

namespace ho::tcp {
namespace {

template <typename Part>
Status check_parts(const Frame& frame, std::span<const Part> parts) {
  size_t total = 0;
  for (const Part& part : parts) {
    total += part.size();
  }
  if (parts.size() > Link::kMaxParts || total != frame.payload_bytes || total > kMaxPayloadBytes) {
    return {StatusCode::kInternal,
            "a message of " + std::to_string(frame.payload_bytes) + " bytes was given " +
                std::to_string(parts.size()) + " parts with " + std::to_string(total) + " bytes"};
  }
  return {};
}

}  // namespace

TcpLink::TcpLink(Context& context, const LinkKey& key)
    : context_(context), key_(key), dials_(opens(context.options.self, key.peer, key.channel)) {
  connections_.resize(context.options.connections_per_link);
}

TcpLink::~TcpLink() = default;

std::string TcpLink::path() const {
  const RailInterface& rail = context_.options.rails.at(key_.rail.at());
  return "tcp " + rail.address + (rail.name.empty() ? "" : " (" + rail.name + ")") + " -> " +
         context_.peers.at(key_.peer.at()).rail_addresses.at(key_.rail.at());
}

std::string TcpLink::to_string() const {
  switch (state_) {
    case State::kOpening:
      return path() +
             (dials_ ? ", connecting"
                     : ", waiting for rank " + std::to_string(key_.peer.value()) + " to connect");
    case State::kOpen:
      return path() + ", connected";
    case State::kClosing:
      return path() + ", closing (idle)";
    case State::kClosed:
      return path() + ", closed while idle";
    case State::kFailed:
      return path() + ", failed";
  }
  return path();
}

std::string TcpLink::trouble() const {
  const std::string& name = context_.options.rails.at(key_.rail.at()).name;
  switch (interface_state(name)) {
    case InterfaceState::kDown:
      return "interface " + name + " is down here (ip link set " + name + " up)";
    case InterfaceState::kNoCarrier:
      return "interface " + name + " has no carrier here (check cable and switch port)";
    case InterfaceState::kUp:
    case InterfaceState::kUnknown:
      break;
  }
  const bool unanswered =
      std::any_of(connections_.begin(), connections_.end(), [this](const auto& connection) {
        return connection != nullptr && connection->unanswered(context_.options.look);
      });
  return unanswered ? "what is sent there is not answered (check cable, switch port and interface "
                      "on both ends)"
                    : "";
}

// Every try call: the sticky error, the mark of use, and opening anew after an idle close.
Status TcpLink::enter_call() {
  event_ = false;
  last_used_turn_ = context_.turn;
  if (state_ == State::kClosed && dials_) {
    state_ = State::kOpening;
    if (Status status = advance_opening(); !status.ok()) {
      return fail(status);
    }
  }
  return error_;
}

Result<bool> TcpLink::try_send(const Frame& frame, std::span<const ConstBytes> payload) {
  HORING_TRY(enter_call());
  HORING_TRY(send_error_);
  if (!send_active_) {
    HORING_TRY(check_parts(frame, payload));
    send_header_ = encode(frame);
    send_offset_ = 0;
    send_bytes_ = kFrameBytes + frame.payload_bytes;
    send_active_ = true;
  }
  if (state_ != State::kOpen) {
    return false;
  }
  const Result<bool> written = write_message(sending_connection(), payload);
  if (!written.ok()) {
    return fail_sending(written.status());
  }
  if (*written) {
    send_active_ = false;
    ++sent_count_;
    note_message();
  }
  return *written;
}

Result<bool> TcpLink::write_message(Connection& connection, std::span<const ConstBytes> payload) {
  // Close frames go between messages.
  if (!control_.empty() && send_offset_ == 0) {
    HORING_ASSIGN(const bool flushed, flush_control());
    if (!flushed) {
      return false;
    }
  }
  while (send_offset_ < send_bytes_) {
    size_t limit = send_bytes_ - send_offset_;
    if (const auto& rate = context_.options.rails[key_.rail.at()].pace) {
      limit = pace(*rate, limit);
      if (limit == 0) {
        return false;
      }
    }
    HORING_ASSIGN(const size_t written,
                  connection.write(send_header_, payload, send_offset_, limit));
    if (written == 0) {
      return false;
    }
    send_offset_ += written;
    paced_bytes_ -= std::min(paced_bytes_, written);
  }
  return true;
}

// How much may leave now; 0: the timer is set for when it may.
size_t TcpLink::pace(const RailPace& rate, size_t wanted_bytes) {
  const int64_t now = now_ns();
  if (paced_bytes_ == 0) {
    paced_bytes_ = std::min(wanted_bytes, Pacer::kSliceBytes);
    paced_from_ns_ = context_.pacer->reserve(rate, paced_bytes_, now);
  }
  if (now < paced_from_ns_) {
    context_.poller->wake_at(paced_from_ns_);
    return 0;
  }
  return std::min(wanted_bytes, paced_bytes_);
}

Result<bool> TcpLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  HORING_TRY(enter_call());
  if (!recv_active_) {
    HORING_TRY(check_parts(expected, parts));
    recv_active_ = true;
  }
  if (state_ != State::kOpen && state_ != State::kClosing) {
    return false;
  }
  const Result<bool> received = receive(expected, parts);
  if (!received.ok()) {
    return fail(received.status());
  }
  if (*received) {
    recv_active_ = false;
    ++received_count_;
    note_message();
  }
  return *received;
}

Result<bool> TcpLink::receive(const Frame& expected, std::span<const Bytes> parts) {
  Connection& connection = receiving_connection();
  HORING_ASSIGN(const bool header, receive_header(expected, parts, connection));
  if (!header) {
    return false;
  }
  HORING_ASSIGN(const bool complete, connection.read_payload(parts, expected.payload_bytes));
  if (!complete) {
    connection.await_rest(HeaderRead::kWithPayload, expected.payload_bytes);
    return false;
  }
  connection.next_message();
  head_checked_ = false;
  return true;
}

HeaderRead TcpLink::header_read(uint32_t payload_bytes) const {
  if (answer_due()) {
    return HeaderRead::kAlone;
  }
  return payload_bytes <= kSmallPayloadBytes ? HeaderRead::kAhead : HeaderRead::kWithPayload;
}

Result<bool> TcpLink::receive_header(const Frame& expected,
                                     std::span<const Bytes> parts,
                                     Connection& connection) {
  while (!head_checked_) {
    const HeaderRead how = header_read(expected.payload_bytes);
    HORING_ASSIGN(const bool complete, connection.read_header(how, parts));
    if (!complete) {
      connection.await_rest(how, expected.payload_bytes);
      return false;
    }
    HORING_ASSIGN(const Frame frame, decode(connection.header()));
    if (frame.type == Frame::Type::kData) {
      note_data_ahead();
      HORING_TRY(check_expected(expected, frame));
      head_checked_ = true;
      return true;
    }
    HORING_TRY(on_control(frame, parts));
    if (frame.type != Frame::Type::kCloseHint && state_ != State::kOpen) {
      return false;
    }
  }
  return true;
}

Result<std::optional<Frame>> TcpLink::try_peek(bool awaited) {
  HORING_TRY(awaited ? enter_call() : error_);
  if (state_ != State::kOpen && state_ != State::kClosing) {
    return std::optional<Frame>();
  }
  Result<std::optional<Frame>> found = peek_open();
  return found.ok() ? std::move(found) : fail(found.status());
}

Result<std::optional<Frame>> TcpLink::peek_open() {
  while (state_ == State::kOpen || state_ == State::kClosing) {
    Connection& connection = receiving_connection();
    const HeaderRead how = header_read(0);
    HORING_ASSIGN(const bool complete, connection.read_header(how, {}));
    if (!complete) {
      connection.await_rest(how, 0);
      break;
    }
    HORING_ASSIGN(const Frame frame, decode(connection.header()));
    if (frame.type == Frame::Type::kData) {
      note_data_ahead();
      return std::optional<Frame>(frame);
    }
    HORING_TRY(on_control(frame, {}));
  }
  return std::optional<Frame>();
}

Result<ConstBytes> TcpLink::try_view(const Frame& expected) {
  if (!view_ready_) {
    const size_t needed = std::max<size_t>(expected.payload_bytes, 1);
    if (staging_bytes_ < needed && expected.payload_bytes <= kMaxPayloadBytes) {
      staging_ = std::make_unique_for_overwrite<std::byte[]>(needed);  // NOLINT: see the member
      staging_bytes_ = needed;
    }
    const Bytes part(staging_.get(), std::min<size_t>(staging_bytes_, expected.payload_bytes));
    HORING_ASSIGN(const bool received, try_recv(expected, std::span(&part, 1)));
    if (!received) {
      return ConstBytes();
    }
    view_ready_ = true;
    view_bytes_ = expected.payload_bytes;
  }
  return ConstBytes(staging_.get(), view_bytes_);
}

bool TcpLink::take_unseen_event() {
  const bool unseen = event_ && (send_active_ || recv_active_);
  event_ = event_ && !unseen;
  return unseen;
}

void TcpLink::tick() {
  hint_ticks_ -= std::min(hint_ticks_, 1U);
  const bool connected = state_ == State::kOpen || state_ == State::kClosing;
  Status status = connected ? Status() : look_for_peer();
  for (size_t i = 0; connected && i < connections_.size() && status.ok(); ++i) {
    status = connections_[i]->check_alive(context_.options.look);
    event_ |= recv_active_ && connections_[i]->look_below_mark();
  }
  if (connected && status.ok() && !recv_active_ && receiving_connection().may_read()) {
    status = inspect();
  }
  if (!status.ok()) {
    event_ = true;
    static_cast<void>(fail(status));  // the next call returns it
  }
}

bool TcpLink::finish_output() {
  bool pending = false;
  for (const auto& connection : connections_) {
    pending |= connection != nullptr && connection->finish_output();
  }
  return pending;
}

void TcpLink::close_connections() {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      connection.reset();
      --context_.open_connections;
    }
  }
  connectors_.clear();
  control_.clear();
  refusal_due_ = false;
  note_message();
}

Status TcpLink::with_link(const Status& cause) const {
  return cause.with_context("rank " + std::to_string(key_.peer.value()) + ", rail " +
                            std::to_string(key_.rail.value()) + ", " + path());
}

// A peer that has ended takes nothing any more, but what it sent before may lie here unread.
Status TcpLink::fail_sending(const Status& cause) {
  if (cause.code() != StatusCode::kPeerLost) {
    return fail(cause);
  }
  send_error_ = with_link(cause);
  log_debug("link sends no more: {}", send_error_.message());
  return send_error_;
}

Status TcpLink::fail(const Status& cause) {
  if (state_ != State::kFailed) {
    error_ = with_link(cause);
    log_debug("link failed: {}", error_.message());
    // Ranks that disagree are both alive: the peer shall hear what differs, over the control plane,
    // and not find a lost connection first.
    if (cause.code() != StatusCode::kMismatch && cause.code() != StatusCode::kInternal) {
      close_connections();
    }
    state_ = State::kFailed;
  }
  return error_;
}

uint64_t TcpLink::memory_bytes() const {
  uint64_t total = sizeof(TcpLink) + staging_bytes_;
  for (const auto& connection : connections_) {
    total += connection == nullptr
                 ? 0
                 : sizeof(Connection) + sizeof(Socket) + connection->memory_bytes();
  }
  return total;
}

}  // namespace ho::tcp
