// Opening a link, and the agreement by which an idle one is closed (tcp_link.hpp explains it).
#include <algorithm>

#include "connect/rail_interface.hpp"
#include "os/clock.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace ho::tcp {
namespace {

// Links in use find close frames in their try calls; looking earlier costs them a system call.
constexpr uint64_t kIdleTurns = 16;
// A peer that does not look at its links for so long does not close the one of the hint now.
constexpr uint32_t kHintTicks = 2;

Status violation(std::string text) {
  return {StatusCode::kProtocol, "close frame from the peer: " + std::move(text)};
}

}  // namespace

LinkClaim TcpLink::claim_of(size_t connection) const {
  LinkClaim claim;
  claim.from = context_.options.self;
  claim.to = key_.peer;
  claim.rail = key_.rail;
  claim.communicator = key_.communicator;
  claim.channel = key_.channel;
  claim.connection = static_cast<uint8_t>(connection);
  claim.connection_count = static_cast<uint8_t>(connections_.size());
  claim.job_id = context_.options.job_id;
  return claim;
}

// Only reaching the peer's host and port is bounded. A peer that is reached but busy elsewhere
// answers when it next drives its transport; the operation's deadline covers that.
Status TcpLink::start_connecting() {
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  Connector::Options options;
  options.name =
      "rank " + std::to_string(key_.peer.value()) + ", rail " + std::to_string(key_.rail.value());
  options.from = context_.options.rails.at(key_.rail.at());
  HORING_ASSIGN(options.to,
                address_on(options.from, peer.rail_addresses.at(key_.rail.at()), peer.port));
  options.purpose = kHandshakePurpose;
  options.key = context_.options.key;
  options.deadline_ns = now_ns() + ns_of(context_.options.connect_timeout);
  options.peer_may_be_busy = true;
  options.watch = [this](Socket& socket) {
    socket.event = &event_;
    return context_.poller->add(socket);
  };
  for (size_t i = 0; i < connections_.size(); ++i) {
    options.claim = [this, i] {
      const auto claim = encode(claim_of(i));
      return std::vector<std::byte>(claim.begin(), claim.end());
    };
    connectors_.push_back(std::make_unique<Connector>(options));
  }
  return {};
}

Status TcpLink::cannot_connect(const Status& why) const {
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const RailInterface& rail = context_.options.rails.at(key_.rail.at());
  const std::string& host = peer.rail_addresses.at(key_.rail.at());
  // Both ranks proved one key when the job began.
  if (why.code() == StatusCode::kUnauthenticated &&
      context_.options.key->allows_address(host).ok()) {
    return why.with_context("rank " + std::to_string(key_.peer.value()) +
                            " is probably gone (see its output), and its port is another job's or "
                            "program's now");
  }
  if (why.code() != StatusCode::kConnection && why.code() != StatusCode::kTimeout) {
    return why;
  }
  const auto to = address_on(rail, host, peer.port);
  const std::string ours = to.ok() ? address_is_ours_text(rail, *to) : "";
  return {
      StatusCode::kConnection,
      "cannot connect from " + rail.address + (rail.name.empty() ? "" : " (" + rail.name + ")") +
          " to " + (to.ok() ? to->to_string() : host) + " within " +
          std::to_string(context_.options.connect_timeout.count()) + " ms: " + why.message() +
          "; " +
          (!ours.empty()
               ? ours
               : "check that rank " + std::to_string(key_.peer.value()) +
                     " is running, that both ends of rail " + std::to_string(key_.rail.value()) +
                     " are up and in one network, and that no firewall drops its port")};
}

bool TcpLink::can_attach(uint8_t connection) const {
  const bool awaited = state_ == State::kOpening || state_ == State::kClosed;
  return !dials_ && awaited && connection < connections_.size() &&
         connections_[connection] == nullptr;
}

void TcpLink::attach(uint8_t connection, std::unique_ptr<Socket> socket) {
  socket->event = &event_;
  connections_.at(connection) = std::make_unique<Connection>(std::move(socket));
  ++context_.open_connections;
  note_attached();
}

void TcpLink::note_attached() {
  const bool all = std::all_of(
      connections_.begin(), connections_.end(), [](const auto& each) { return each != nullptr; });
  state_ = all ? State::kOpen : State::kOpening;
  if (all) {
    event_ = true;
    connectors_.clear();
  }
}

// A peer that opens the link and never has: its end closes no connection here.
Status TcpLink::look_for_peer() {
  const bool awaited = !dials_ && (state_ == State::kOpening || state_ == State::kClosed) &&
                       last_used_turn_ + kIdleTurns >= context_.turn;
  if (!context_.watches_peers || !awaited) {
    peer_port_.pause();
    return {};
  }
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const RailInterface& rail = context_.options.rails.at(key_.rail.at());
  HORING_ASSIGN(const SocketAddress address,
                address_on(rail, peer.rail_addresses.at(key_.rail.at()), peer.port));
  return peer_port_.check(rail, address);
}

Status TcpLink::advance_opening() {
  if (connectors_.empty()) {
    HORING_TRY(start_connecting());
  }
  for (size_t i = 0; i < connectors_.size(); ++i) {
    if (connections_[i] != nullptr) {
      continue;
    }
    Result<std::unique_ptr<Socket>> socket = connectors_[i]->step(now_ns());
    if (!socket.ok()) {
      return cannot_connect(socket.status());
    }
    if (*socket == nullptr) {
      context_.poller->wake_at(connectors_[i]->next_deadline_ns());
      continue;
    }
    tune_data_socket((*socket)->fd.get());
    attach(static_cast<uint8_t>(i), *std::move(socket));
    if (state_ == State::kOpen) {
      break;  // the connectors are gone
    }
  }
  return {};
}

void TcpLink::advance() {
  Status status;
  if (state_ == State::kOpening && dials_) {
    status = advance_opening();
  } else if (state_ == State::kClosing || !control_.empty()) {
    status = advance_closing();
  } else if (close_wanted_ && closable()) {
    begin_close();
  } else if (state_ == State::kOpen && !recv_active_ &&
             last_used_turn_ + kIdleTurns < context_.turn && receiving_connection().may_read()) {
    status = inspect();
  }
  if (!status.ok()) {
    event_ = true;
    static_cast<void>(fail(status));  // the next call returns it
  }
}

bool TcpLink::closable() const {
  return dials_ && idle();
}

bool TcpLink::hintable() const {
  return !dials_ && !hinted_ && idle();
}

bool TcpLink::idle() const {
  const bool quiet = state_ == State::kOpen && !send_active_ && !recv_active_ && !view_ready_ &&
                     !refusal_due_ && control_.empty() && last_used_turn_ < context_.turn;
  return quiet && std::all_of(connections_.begin(), connections_.end(), [](const auto& connection) {
           return connection->at_message_start();
         });
}

void TcpLink::begin_close() {
  state_ = State::kClosing;
  close_wanted_ = false;
  queue_control(Frame::Type::kCloseRequest);
  advance();
}

void TcpLink::send_hint() {
  hinted_ = true;
  hint_ticks_ = kHintTicks;
  queue_control(Frame::Type::kCloseHint);
  advance();
}

// The link is of use: what was said of it as an idle one is no longer so.
void TcpLink::note_message() {
  hinted_ = false;
  hint_ticks_ = 0;
  close_wanted_ = false;
}

void TcpLink::queue_control(Frame::Type type) {
  Frame frame;
  frame.type = type;
  frame.communicator = key_.communicator;
  frame.count = received_count_;
  frame.sequence = static_cast<uint32_t>(sent_count_);
  const FrameBytes bytes = encode(frame);
  control_.insert(control_.end(), bytes.begin(), bytes.end());
}

Result<bool> TcpLink::flush_control() {
  while (!control_.empty()) {
    iovec buffer{control_.data(), control_.size()};
    HORING_ASSIGN(const size_t written,
                  sending_connection().write(std::span(&buffer, 1), control_.size()));
    if (written == 0) {
      return false;
    }
    control_.erase(control_.begin(), control_.begin() + static_cast<ptrdiff_t>(written));
  }
  return true;
}

Status TcpLink::advance_closing() {
  // A message that is partly written goes first; try_send flushes after it.
  if (!control_.empty() && send_offset_ > 0 && send_active_) {
    return {};
  }
  HORING_ASSIGN(const bool flushed, flush_control());
  if (!flushed) {
    return {};
  }
  if (state_ == State::kClosing && !dials_) {
    close_connections();
    state_ = State::kClosed;
    return {};
  }
  return state_ == State::kClosing ? inspect() : Status();
}

// Reads one header and acts on it if it is a close frame. A data header stays for the next receive.
Status TcpLink::inspect() {
  bool hint = true;
  while (hint) {  // an answer may follow it that no event announces any more
    HORING_ASSIGN(hint, inspect_hint());
  }
  return {};
}

// true: it was a hint.
Result<bool> TcpLink::inspect_hint() {
  Connection& connection = receiving_connection();
  if (head_checked_ || connection.header_complete()) {
    return false;
  }
  const Result<bool> complete = connection.read_header(HeaderRead::kAlone, {});
  if (!complete.ok()) {
    // A peer that ended first sent what it had to send: it may lie in the other connections.
    const bool all_ended =
        std::all_of(connections_.begin(), connections_.end(), [&](const auto& each) {
          return each.get() == &connection || each->at_end();
        });
    return all_ended ? Result<bool>(complete.status()) : Result<bool>(false);
  }
  if (!*complete) {
    connection.await_rest(HeaderRead::kAlone, 0);
    return false;
  }
  HORING_ASSIGN(const Frame frame, decode(connection.header()));
  if (frame.type == Frame::Type::kData) {
    note_data_ahead();
    return false;
  }
  HORING_TRY(on_control(frame, {}));
  return frame.type == Frame::Type::kCloseHint;
}

// A message in front of the answer to our request: it was sent before the request arrived, so the
// peer's count differs from ours and it will refuse. No need to wait for that.
void TcpLink::note_data_ahead() {
  if (dials_ && state_ == State::kClosing) {
    state_ = State::kOpen;
    refusal_due_ = true;
    event_ = true;
  }
}

Status TcpLink::on_control(const Frame& frame, std::span<const Bytes> parts) {
  if (frame.payload_bytes != 0) {
    return violation("it has a payload");
  }
  receiving_connection().next_message_after_bare_header(parts);
  if (frame.type == Frame::Type::kCloseRequest) {
    return on_request(frame);
  }
  if (frame.type == Frame::Type::kCloseHint) {
    return on_hint();
  }
  if (!answer_due()) {
    return violation("an answer without a request");
  }
  event_ = true;
  if (frame.type == Frame::Type::kCloseAccept && !refusal_due_) {
    close_connections();
    state_ = State::kClosed;
    return {};
  }
  if (frame.type == Frame::Type::kCloseAccept) {
    return violation("an acceptance after a message");
  }
  refusal_due_ = false;
  state_ = State::kOpen;
  return {};
}

// One that meets a request of ours changes nothing: the answer comes behind it.
Status TcpLink::on_hint() {
  if (!dials_) {
    return violation("a hint from the rank that could close the link itself");
  }
  if (state_ == State::kOpen) {
    close_wanted_ = true;
    context_.poller->wake_at(now_ns());
  }
  return {};
}

Status TcpLink::on_request(const Frame& frame) {
  // A hint may still be here that has not left; more than one frame is a peer that does not wait.
  if (dials_ || state_ != State::kOpen || control_.size() > kFrameBytes) {
    return violation("an unexpected request");
  }
  const bool agreed = !send_active_ && frame.count == sent_count_ &&
                      frame.sequence == static_cast<uint32_t>(received_count_);
  if (agreed && !receiving_connection().at_message_start()) {
    return violation("a message behind a request that no message crossed");
  }
  queue_control(agreed ? Frame::Type::kCloseAccept : Frame::Type::kCloseRefuse);
  if (agreed) {
    state_ = State::kClosing;
  }
  return advance_closing();
}

}  // namespace ho::tcp
