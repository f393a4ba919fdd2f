#include "transport/tcp/tcp_link.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "os/clock.hpp"
#include "transport/parts.hpp"

namespace ho::tcp {
namespace {

// Links in use find close frames in their try calls; looking earlier costs them a system call.
constexpr uint64_t kIdleTurns = 16;

}  // namespace

TcpLink::TcpLink(Context& context, const LinkKey& key)
    : context_(context),
      key_(key),
      connections_(context, key, event_),
      idle_close_(connections_.dials()) {
  if (context.options.failover.on) {
    failover_ = std::make_unique<Failover>(context, key, event_);
  }
}

TcpLink::~TcpLink() = default;

std::string TcpLink::to_string() const {
  if (!error_.ok()) {
    return connections().path() + ", failed";
  }
  if (idle_close_.closing()) {
    return connections().path() + ", closing (idle)";
  }
  const std::string state = failover_ == nullptr ? "" : failover_->state();
  return state.empty() ? connections().to_string() : state;
}

// Every try call: the sticky error, the mark of use, and opening anew after an idle close.
Status TcpLink::enter_call() {
  event_ = false;
  last_used_turn_ = context_.turn;
  if (std::exchange(rests_, false)) {
    failover_->use();
  }
  if (error_.ok() && failover_ == nullptr && connections_.may_dial_again()) {
    if (Status status = connections_.dial(); !status.ok()) {
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
    outgoing_ = {encode(frame), 0, kFrameBytes + frame.payload_bytes};
    send_active_ = true;
  }
  if (!messages_flow()) {
    return false;
  }
  if (failover_ != nullptr && failover_->epoch() != sending_epoch_) {
    sending_epoch_ = failover_->epoch();
    outgoing_.offset = 0;
  }
  // Close frames go between messages.
  if (idle_close_.has_unwritten() && outgoing_.offset == 0) {
    const Result<bool> clear = write_close_frames();
    if (!clear.ok()) {
      return fail_sending(clear.status());
    }
    if (!*clear) {
      return false;
    }
  }
  const Result<bool> written = connections().write(sent_count_, outgoing_, payload);
  if (!written.ok()) {
    if (failover_ != nullptr) {
      failover_->on_write_failed(written.status());
      return false;
    }
    return fail_sending(written.status());
  }
  if (*written) {
    send_active_ = false;
    if (failover_ != nullptr) {
      failover_->sent(outgoing_.header, payload);
    }
    ++sent_count_;
    idle_close_.on_message_through();
  }
  return *written;
}

Result<bool> TcpLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  HORING_TRY(enter_call());
  if (!recv_active_) {
    HORING_TRY(check_parts(expected, parts));
    recv_active_ = true;
  }
  Connection* const connection = receiving_connection();
  if (connection == nullptr) {
    HORING_TRY(failover_ == nullptr ? Status() : fail_ended());
    return false;
  }
  const Result<bool> received = receive(expected, parts, *connection);
  if (!received.ok()) {
    HORING_TRY(fail_receiving(received.status()));
    return false;
  }
  if (*received) {
    recv_active_ = false;
    ++received_count_;
    if (failover_ != nullptr) {
      failover_->on_received(received_count_);
    }
    idle_close_.on_message_through();
  }
  return *received;
}

Connection* TcpLink::receiving_connection() {
  if (failover_ == nullptr) {
    return connections_.open() ? &connections_.of_message(received_count_) : nullptr;
  }
  const Failover::From from = failover_->from(received_count_);
  if (from.connection != nullptr && from.epoch != receiving_epoch_) {
    receiving_epoch_ = from.epoch;  // the message begins again
    head_checked_ = false;
  }
  return from.connection;
}

// Nothing more comes, and all that was here has been received.
Status TcpLink::fail_ended() {
  return send_error_.ok() ? Status() : fail_with_path(send_error_);
}

Status TcpLink::fail_receiving(const Status& cause) {
  const bool lost =
      cause.code() == StatusCode::kConnection || cause.code() == StatusCode::kPeerLost;
  if (failover_ == nullptr || !lost) {
    return fail(cause);
  }
  failover_->on_read_failed(received_count_, cause);
  return {};
}

Result<bool> TcpLink::receive(const Frame& expected,
                              std::span<const Bytes> parts,
                              Connection& connection) {
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
  if (idle_close_.answer_due()) {
    return HeaderRead::kAlone;
  }
  return payload_bytes <= kSmallPayloadBytes ? HeaderRead::kAhead : HeaderRead::kWithPayload;
}

Result<bool> TcpLink::receive_header(const Frame& expected,
                                     std::span<const Bytes> parts,
                                     Connection& connection) {
  while (!head_checked_) {
    const HeaderRead how = header_read(expected.payload_bytes);
    connection.begin_awaiting();
    HORING_ASSIGN(const bool complete, connection.read_header(how, parts));
    if (!complete) {
      connection.await_rest(how, expected.payload_bytes);
      return false;
    }
    HORING_ASSIGN(const Frame frame, decode(connection.header()));
    if (frame.type == Frame::Type::kData) {
      note_message_here();
      HORING_TRY(check_expected(expected, frame));
      head_checked_ = true;
      return true;
    }
    // Those that were replaced are read to their end. Others may be gone after this.
    const bool goes_on = connection.drained() || reads_replaced();
    HORING_TRY(on_close_frame(frame, parts, connection));
    if (!goes_on && frame.type != Frame::Type::kCloseHint && !messages_flow()) {
      return false;
    }
  }
  return true;
}

Result<std::optional<Frame>> TcpLink::try_peek(bool awaited) {
  HORING_TRY(awaited ? enter_call() : error_);
  Result<std::optional<Frame>> found = peek_open(awaited);
  if (found.ok()) {
    return found;
  }
  HORING_TRY(error_);  // it was the link's
  HORING_TRY(fail_receiving(found.status()));
  return std::optional<Frame>();
}

Result<std::optional<Frame>> TcpLink::peek_open(bool awaited) {
  while (Connection* const connection = receiving_connection()) {
    const HeaderRead how = header_read(0);
    if (awaited) {
      connection->begin_awaiting();
    }
    HORING_ASSIGN(const bool complete, connection->read_header(how, {}));
    if (!complete) {
      if (awaited || !connection->awaits_nothing()) {
        connection->await_rest(how, 0);
      }
      return std::optional<Frame>();
    }
    HORING_ASSIGN(const Frame frame, decode(connection->header()));
    if (frame.type == Frame::Type::kData) {
      note_message_here();
      return std::optional<Frame>(frame);
    }
    HORING_TRY(on_close_frame(frame, {}, *connection));
  }
  if (failover_ != nullptr) {
    HORING_TRY(fail_ended());
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

// Other connections: what was said of those before them, and not heard, is no longer so.
void TcpLink::note_epoch() {
  if (std::exchange(closing_epoch_, failover_->epoch()) != failover_->epoch()) {
    idle_close_.on_closed();
  }
}

void TcpLink::advance_failover() {
  if (!error_.ok() || !send_error_.ok()) {
    return;
  }
  note_epoch();
  // Connections of another epoch end what the peer's request or this end's waits for.
  const bool wanted =
      send_active_ || recv_active_ || (recently_used() && !rests_) || idle_close_.has_unwritten();
  const bool closing = idle_close_.closing() && connections_.dials();
  const Status status =
      failover_->advance({.wanted = wanted, .received = received_count_, .closing = closing});
  note_epoch();
  if (!idle_close_.closing()) {
    failover_->look_in_doubt();
  }
  if (!status.ok()) {
    failover_->end(received_count_);
    event_ = true;
    send_error_ = status;  // what has come can still be received
    log_debug("link fails over no more: {}", status.message());
  }
}

bool TcpLink::recently_used() const {
  return last_used_turn_ + kIdleTurns >= context_.turn;
}

void TcpLink::await_nothing() {
  if (!recv_active_ && messages_flow()) {
    connections().await_nothing();
  }
}

bool TcpLink::all_arrived() {
  return failover_ == nullptr || !error_.ok() || !send_error_.ok() || failover_->all_arrived();
}

void TcpLink::advance() {
  Status status;
  if (failover_ != nullptr) {
    status = closes() ? advance_closing() : Status();  // the peer ends behind its answer
    advance_failover();
  }
  if (status.ok()) {
    status = advance_open();
  }
  if (!status.ok()) {
    event_ = true;
    static_cast<void>(fail(status));  // the next call returns it
  }
}

Status TcpLink::advance_open() {
  if (error_.ok() && failover_ == nullptr && connections_.dialling()) {
    return connections_.dial();
  }
  if (closes()) {
    return advance_closing();
  }
  if (idle_close_.hint_came() && may_begin_close()) {
    begin_close();
  } else if (messages_flow() && !recv_active_ && !recently_used() && may_inspect()) {
    return inspect();
  }
  return {};
}

bool TcpLink::closes() const {
  const bool can = failover_ == nullptr || failover_->flows();
  return can && (idle_close_.closing() || idle_close_.has_unwritten());
}

void TcpLink::tick() {
  idle_close_.tick();
  const bool connected = error_.ok() && connections().open();
  Status status;
  if (failover_ != nullptr && connected) {
    failover_->tick(recv_active_);
    if (!idle_close_.closing()) {
      failover_->look_at_rails();
    }
  } else {
    status = connected ? connections().look(recv_active_)
                       : connections().look_for_peer(error_.ok() && recently_used());
  }
  note_closing(now_ns());
  // The end of another connection may have been seen before the answer that lies in this one.
  const bool reads =
      failover_ == nullptr ? connected : messages_flow() || (error_.ok() && idle_close_.closing());
  if (reads && status.ok() && !recv_active_ && may_inspect()) {
    status = inspect();
  }
  if (!status.ok()) {
    event_ = true;
    static_cast<void>(fail(status));  // the next call returns it
  }
}

// A peer that has lost the connections may never have read the request.
void TcpLink::note_closing(int64_t now) {
  const bool waits = failover_ != nullptr && idle_close_.closing() && connections_.dials();
  closing_since_ns_ = !waits ? 0 : closing_since_ns_ == 0 ? now : closing_since_ns_;
  if (waits && send_active_ &&
      now - closing_since_ns_ >= ns_of(context_.options.failover.silence)) {
    failover_->on_unanswered();
  }
}

bool TcpLink::can_attach(const LinkClaim& claim) const {
  if (!error_.ok()) {
    return false;
  }
  return failover_ == nullptr ? connections_.can_attach(claim)
                              : send_error_.ok() && failover_->can_arrive(claim);
}

void TcpLink::attach(const LinkClaim& claim, std::unique_ptr<Socket> socket) {
  if (failover_ == nullptr) {
    connections_.attach(claim, std::move(socket));
  } else {
    failover_->arrive(claim, std::move(socket));
  }
}

bool TcpLink::may_inspect() {
  Connection* const connection = receiving_connection();
  return connection != nullptr && connection->may_read();
}

bool TcpLink::may_begin_close() const {
  const bool at_rest = messages_flow() && idle_close_.may_begin() && !send_active_ &&
                       !recv_active_ && !view_ready_ && last_used_turn_ < context_.turn;
  return at_rest &&
         (failover_ == nullptr ? connections_.at_message_start() : failover_->may_rest());
}

void TcpLink::begin_close() {
  idle_close_.begin(messages());
  advance();
}

IdleClose::Messages TcpLink::messages() const {
  IdleClose::Messages all;
  all.communicator = key_.communicator;
  all.sent = sent_count_;
  all.received = received_count_;
  all.sending = send_active_;
  return all;
}

Result<bool> TcpLink::write_close_frames() {
  while (idle_close_.has_unwritten()) {
    const std::span<std::byte> bytes = idle_close_.unwritten();
    iovec buffer{bytes.data(), bytes.size()};
    const Result<size_t> written =
        connections().of_message(sent_count_).write(std::span(&buffer, 1), bytes.size());
    if (!written.ok() && failover_ != nullptr) {
      connections().note_failed(sent_count_);
      failover_->on_write_failed(written.status());
      return false;
    }
    HORING_TRY(written.status());
    if (*written == 0) {
      return false;
    }
    idle_close_.wrote(*written);
  }
  return true;
}

Status TcpLink::advance_closing() {
  // A message that is partly written here goes first; try_send writes close frames after it.
  const bool written_here = failover_ == nullptr || failover_->epoch() == sending_epoch_;
  if (idle_close_.has_unwritten() && outgoing_.offset > 0 && send_active_ && written_here) {
    return {};
  }
  HORING_ASSIGN(const bool written, write_close_frames());
  if (!written || !idle_close_.closing()) {
    return {};
  }
  if (!connections_.dials()) {
    close_idle();
    return {};
  }
  return inspect();
}

// Both ends have received all that was sent.
void TcpLink::close_idle() {
  if (failover_ == nullptr) {
    connections_.close();
  } else {
    failover_->rest(received_count_);
    rests_ = true;
  }
  idle_close_.on_closed();
}

// Reads headers and acts on those that are close frames. A message's stays for the next receive.
Status TcpLink::inspect() {
  bool hint = true;
  while (hint) {  // an answer may follow it that no event announces any more
    HORING_ASSIGN(hint, inspect_one());
  }
  return {};
}

// true: it was a hint.
Result<bool> TcpLink::inspect_one() {
  Connection& connection = *receiving_connection();
  if (head_checked_ || connection.header_complete()) {
    return false;
  }
  const Result<bool> complete = connection.read_header(HeaderRead::kAlone, {});
  if (!complete.ok() && failover_ != nullptr) {
    HORING_TRY(fail_receiving(complete.status()));
    return false;
  }
  if (!complete.ok()) {
    // A peer that ended first sent what it had to send: it may lie in the other connections.
    return connections_.others_at_end(connection) ? Result<bool>(complete.status())
                                                  : Result<bool>(false);
  }
  if (!*complete) {
    connection.await_rest(HeaderRead::kAlone, 0);
    return false;
  }
  HORING_ASSIGN(const Frame frame, decode(connection.header()));
  if (frame.type == Frame::Type::kData) {
    note_message_here();
    return false;
  }
  HORING_TRY(on_close_frame(frame, {}, connection));
  return frame.type == Frame::Type::kCloseHint;
}

void TcpLink::note_message_here() {
  event_ |= idle_close_.on_message_here();
}

Status TcpLink::on_close_frame(const Frame& frame,
                               std::span<const Bytes> parts,
                               Connection& connection) {
  connection.next_message_after_bare_header(parts);
  if (connection.drained() || reads_replaced()) {
    return {};  // what was said over connections that were replaced is no longer so
  }
  const bool known =
      frame.type == Frame::Type::kCloseRequest || frame.type == Frame::Type::kCloseHint ||
      frame.type == Frame::Type::kCloseAccept || frame.type == Frame::Type::kCloseRefuse;
  if (!known) {
    return {StatusCode::kProtocol, "a frame that says where to go on, among messages"};
  }
  IdleClose::Messages now = messages();
  now.more_behind = !connection.at_message_start();
  now.sending |= failover_ != nullptr && !failover_->can_rest();
  HORING_ASSIGN(const IdleClose::Then then, idle_close_.on_frame(frame, now));
  switch (then) {
    case IdleClose::Then::kLook:
      if (idle_close_.hint_came()) {
        context_.poller->wake_at(now_ns());
      }
      return {};
    case IdleClose::Then::kAnswer:
      return closes() ? advance_closing() : Status();
    case IdleClose::Then::kGoOn:
      event_ = true;
      return {};
    case IdleClose::Then::kClose:
      event_ = true;
      close_idle();
      return {};
  }
  return {};
}

void TcpLink::close() {
  if (failover_ != nullptr) {
    failover_->end(received_count_);
  }
  connections_.close();
  idle_close_.on_closed();
}

// A peer that has ended takes nothing any more, but what it sent before may lie here unread.
Status TcpLink::fail_sending(const Status& cause) {
  if (cause.code() != StatusCode::kPeerLost) {
    return fail(cause);
  }
  send_error_ = connections().with_path(cause);
  log_debug("link sends no more: {}", send_error_.message());
  return send_error_;
}

Status TcpLink::fail(const Status& cause) {
  return fail_with_path(connections().with_path(cause));
}

Status TcpLink::fail_with_path(const Status& cause) {
  if (error_.ok()) {
    error_ = cause;
    log_debug("link failed: {}", error_.message());
    idle_close_.on_failure();
    // Ranks that disagree are both alive: the peer shall hear what differs, over the control plane,
    // and not find a lost connection first.
    if (cause.code() != StatusCode::kMismatch && cause.code() != StatusCode::kInternal) {
      close();
    }
  }
  return error_;
}

uint64_t TcpLink::memory_bytes() const {
  return sizeof(TcpLink) + staging_bytes_ +
         (failover_ == nullptr ? connections_.memory_bytes() : failover_->memory_bytes());
}

}  // namespace ho::tcp
