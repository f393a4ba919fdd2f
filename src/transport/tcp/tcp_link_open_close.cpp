// Opening a link, and the agreement by which an idle one is closed (tcp_link.hpp explains it).
#include <algorithm>

#include "base/log.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace ho::tcp {
namespace {

// Links in use find close frames in their try calls; looking earlier costs them a system call.
constexpr uint64_t kIdleTurns = 16;

Status violation(std::string text) {
  return {StatusCode::kProtocol, "close frame from the peer: " + std::move(text)};
}

}  // namespace

void TcpLink::start_dialling() {
  dialers_.clear();
  for (size_t i = 0; i < streams_.size(); ++i) {
    dialers_.push_back(std::make_unique<Dialer>(context_, key_, static_cast<uint8_t>(i), this));
  }
}

bool TcpLink::can_attach(uint8_t stream) const {
  const bool awaited = state_ == State::kOpening || state_ == State::kClosed;
  return !dials_ && awaited && stream < streams_.size() && streams_[stream] == nullptr;
}

void TcpLink::attach(uint8_t stream, std::unique_ptr<Socket> socket) {
  socket->owner = this;
  streams_.at(stream) = std::make_unique<Stream>(std::move(socket));
  ++context_.open_connections;
  note_attached();
}

void TcpLink::note_attached() {
  const bool all = std::all_of(
      streams_.begin(), streams_.end(), [](const auto& each) { return each != nullptr; });
  state_ = all ? State::kOpen : State::kOpening;
  if (all) {
    event_ = true;
    dialers_.clear();
  }
}

Status TcpLink::advance_opening() {
  for (size_t i = 0; i < dialers_.size(); ++i) {
    if (streams_[i] != nullptr) {
      continue;
    }
    HORING_ASSIGN(std::unique_ptr<Socket> socket, dialers_[i]->step());
    if (socket == nullptr) {
      continue;
    }
    attach(static_cast<uint8_t>(i), std::move(socket));
    if (state_ == State::kOpen) {
      break;  // the dialers are gone
    }
  }
  return {};
}

void TcpLink::advance() {
  Status status;
  if (state_ == State::kOpening && dials_) {
    status = advance_opening();
  } else if (state_ == State::kClosing || control_left_ > 0) {
    status = advance_closing();
  } else if (state_ == State::kOpen && !recv_active_ &&
             last_used_turn_ + kIdleTurns < context_.turn && receiving_stream().may_read()) {
    status = inspect();
  }
  if (!status.ok()) {
    event_ = true;
    static_cast<void>(fail(status));  // the next call returns it
  }
}

bool TcpLink::closable() const {
  const bool quiet = dials_ && state_ == State::kOpen && !send_active_ && !recv_active_ &&
                     !view_ready_ && !refusal_due_ && control_left_ == 0 &&
                     last_used_turn_ < context_.turn;
  return quiet && std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) {
           return stream->at_message_start();
         });
}

void TcpLink::begin_close() {
  state_ = State::kClosing;
  queue_control(Frame::Type::kCloseRequest);
  advance();
}

void TcpLink::queue_control(Frame::Type type) {
  Frame frame;
  frame.type = type;
  frame.communicator = key_.communicator;
  frame.count = received_count_;
  frame.sequence = static_cast<uint32_t>(sent_count_);
  control_ = encode(frame);
  control_left_ = kFrameBytes;
}

Result<bool> TcpLink::flush_control() {
  while (control_left_ > 0) {
    HORING_ASSIGN(const size_t written,
                  sending_stream().write(control_, {}, kFrameBytes - control_left_, control_left_));
    if (written == 0) {
      return false;
    }
    control_left_ -= written;
  }
  return true;
}

Status TcpLink::advance_closing() {
  // A message that is partly written goes first; try_send flushes after it.
  if (control_left_ > 0 && send_offset_ > 0 && send_active_) {
    return {};
  }
  HORING_ASSIGN(const bool flushed, flush_control());
  if (!flushed) {
    return {};
  }
  if (state_ == State::kClosing && !dials_) {
    close_streams();
    state_ = State::kClosed;
    return {};
  }
  return state_ == State::kClosing ? inspect() : Status();
}

// Reads one header and acts on it if it is a close frame. A data header stays for the next receive.
Status TcpLink::inspect() {
  Stream& stream = receiving_stream();
  if (head_checked_ || stream.header_complete()) {
    return {};
  }
  const Result<bool> complete = stream.read_header(HeaderRead::kAlone, {});
  if (!complete.ok()) {
    // A peer that ended first sent what it had to send: it may lie in the other streams.
    const bool all_ended = std::all_of(streams_.begin(), streams_.end(), [&](const auto& each) {
      return each.get() == &stream || each->at_end();
    });
    return all_ended ? complete.status() : Status();
  }
  if (!*complete) {
    stream.await_rest(HeaderRead::kAlone, 0);
    return {};
  }
  HORING_ASSIGN(const Frame frame, decode(stream.header()));
  if (frame.type == Frame::Type::kData) {
    note_data_ahead();
    return {};
  }
  return on_control(frame, {});
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
  receiving_stream().next_message_after_bare_header(parts);
  if (frame.type == Frame::Type::kCloseRequest) {
    return on_request(frame);
  }
  if (!answer_due()) {
    return violation("an answer without a request");
  }
  event_ = true;
  if (frame.type == Frame::Type::kCloseAccept && !refusal_due_) {
    close_streams();
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

Status TcpLink::on_request(const Frame& frame) {
  if (dials_ || state_ != State::kOpen || control_left_ > 0) {
    return violation("an unexpected request");
  }
  const bool agreed = !send_active_ && frame.count == sent_count_ &&
                      frame.sequence == static_cast<uint32_t>(received_count_);
  if (agreed && !receiving_stream().at_message_start()) {
    return violation("a message behind a request that no message crossed");
  }
  queue_control(agreed ? Frame::Type::kCloseAccept : Frame::Type::kCloseRefuse);
  if (agreed) {
    state_ = State::kClosing;
  }
  return advance_closing();
}

}  // namespace ho::tcp
