#include "transport/tcp/idle_close.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ho::tcp {
namespace {

// A peer that does not look at its links for so long does not close the one of the hint now.
constexpr uint32_t kHintTicks = 2;

Status violation(std::string text) {
  return {StatusCode::kProtocol, "close frame from the peer: " + std::move(text)};
}

}  // namespace

void IdleClose::begin(const Messages& messages) {
  if (begins_) {
    closing_ = true;
    hint_came_ = false;
  } else {
    hinted_ = true;
    hint_ticks_ = kHintTicks;
  }
  queue(begins_ ? Frame::Type::kCloseRequest : Frame::Type::kCloseHint, messages);
}

void IdleClose::queue(Frame::Type type, const Messages& messages) {
  Frame frame;
  frame.type = type;
  frame.communicator = messages.communicator;
  frame.count = messages.received;
  frame.sequence = static_cast<uint32_t>(messages.sent);
  const FrameBytes bytes = encode(frame);
  unwritten_.insert(unwritten_.end(), bytes.begin(), bytes.end());
}

void IdleClose::wrote(size_t bytes) {
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<ptrdiff_t>(bytes));
}

Result<IdleClose::Then> IdleClose::on_frame(const Frame& frame, const Messages& messages) {
  if (frame.payload_bytes != 0) {
    return violation("it has a payload");
  }
  if (frame.type == Frame::Type::kCloseRequest) {
    return on_request(frame, messages);
  }
  return frame.type == Frame::Type::kCloseHint ? on_hint() : on_answer(frame);
}

// One that meets a request of ours changes nothing: the answer comes behind it.
Result<IdleClose::Then> IdleClose::on_hint() {
  if (!begins_) {
    return violation("a hint from the rank that could close the link itself");
  }
  hint_came_ |= !closing_;
  return Then::kLook;
}

Result<IdleClose::Then> IdleClose::on_request(const Frame& frame, const Messages& messages) {
  // A hint may still be here that has not left; more than one frame is a peer that does not wait.
  if (begins_ || closing_ || unwritten_.size() > kFrameBytes) {
    return violation("an unexpected request");
  }
  const bool agreed = !messages.sending && frame.count == messages.sent &&
                      frame.sequence == static_cast<uint32_t>(messages.received);
  if (agreed && messages.more_behind) {
    return violation("a message behind a request that no message crossed");
  }
  queue(agreed ? Frame::Type::kCloseAccept : Frame::Type::kCloseRefuse, messages);
  closing_ = agreed;
  return Then::kAnswer;
}

Result<IdleClose::Then> IdleClose::on_answer(const Frame& frame) {
  if (!answer_due()) {
    return violation("an answer without a request");
  }
  if (frame.type == Frame::Type::kCloseAccept) {
    return refusal_due_ ? Result<Then>(violation("an acceptance after a message"))
                        : Result<Then>(Then::kClose);
  }
  refused_ = closing_;
  refusal_due_ = false;
  closing_ = false;
  return Then::kGoOn;
}

// It was sent before the request arrived, so the peer's count differs from ours and it will refuse.
// No need to wait for that.
bool IdleClose::on_message_here() {
  const bool crossed = begins_ && closing_;
  if (crossed) {
    closing_ = false;
    refusal_due_ = true;
  }
  return crossed;
}

void IdleClose::on_message_through() {
  hinted_ = false;
  hint_ticks_ = 0;
  hint_came_ = false;
  refused_ = false;
}

void IdleClose::tick() {
  refused_ = false;
  hint_ticks_ -= std::min(hint_ticks_, 1U);
}

void IdleClose::on_closed() {
  closing_ = false;
  unwritten_.clear();
  refusal_due_ = false;
  on_message_through();
}

}  // namespace ho::tcp
