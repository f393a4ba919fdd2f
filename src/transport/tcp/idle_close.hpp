// What the ends of a link tell each other before an idle one is closed: which close frames leave,
// what the peer's mean, and what may not be done meanwhile. Pure: no socket and no clock.
//
// A rank with more connections than it may keep (tcp_transport.cpp says why) closes idle links of
// which it is the lower rank (it opened them, and it will open them again; a link for the higher
// rank's messages has the ranks the other way round, here and below). It sends a CloseRequest that
// says how many messages it has sent and received. The peer agrees only when it has received and
// sent exactly as many and has nothing under way, so that no message can be lost; it answers
// CloseAccept and closes. Otherwise, because messages crossed the request, it answers CloseRefuse
// and all goes on. Either way the next use of the link on the lower rank opens it again; the higher
// rank's calls wait for that.
//
// A higher rank never begins, or two requests could cross. Where it is the one with too many
// connections (all send to it, say), it sends a CloseHint on an idle link. The lower rank then
// begins as soon as the link is not in use, unless a message passes first. A hint needs no answer:
// after the next message the higher rank may send another one.
//
// A close frame takes its place among the messages: it goes over the connection that the sender's
// next message will take, so the peer meets it after all earlier messages and before any later one.
// The requester's messages wait until it has met the answer, or a message that crossed the request.
// Then the answer will be a refusal, and they may follow the request at once. They must not wait
// for the refusal itself: it stands behind the message that crossed, and the caller may receive
// that only once its own message has left. So a message waits only until the peer has received all
// earlier ones, as it would in a connection that buffers nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "transport/frame.hpp"

namespace ho::tcp {

class IdleClose {
 public:
  // What this end has sent and received of a link's messages.
  struct Messages {
    uint16_t communicator = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    bool sending = false;      // one is in progress
    bool more_behind = false;  // something of another was read behind the frame
  };
  // What is to be done after a frame of the peer's.
  enum class Then : uint8_t {
    kLook,    // a hint: begin(), once the link is idle, if hint_came()
    kAnswer,  // a request: write what unwritten() holds
    kGoOn,    // a refusal: the link is open as before
    kClose,   // an acceptance: nothing is under way either way
  };

  // begins: this end may request; the other one sends hints.
  explicit IdleClose(bool begins) : begins_(begins) {}

  // Between a request and what is done after its answer; no message may leave.
  [[nodiscard]] bool closing() const { return closing_; }
  // The peer owes an answer to a request, which stands before any message.
  [[nodiscard]] bool answer_due() const { return begins_ && (closing_ || refusal_due_); }
  // Nothing is under way, and begin() may be called on an idle link.
  [[nodiscard]] bool may_begin() const {
    return !closing_ && !refusal_due_ && unwritten_.empty() && !hinted_ && !refused_;
  }
  // The peer sent a hint, and no message has passed since.
  [[nodiscard]] bool hint_came() const { return hint_came_; }
  // The link is likely to be closed soon: closing, or the peer has had a hint not long ago.
  [[nodiscard]] bool likely() const { return closing_ || hint_ticks_ > 0; }

  // A request, or a hint.
  void begin(const Messages& messages);
  // The frames that have not left yet, which go between messages.
  [[nodiscard]] bool has_unwritten() const { return !unwritten_.empty(); }
  [[nodiscard]] std::span<std::byte> unwritten() { return unwritten_; }
  void wrote(size_t bytes);

  // A close frame of the peer's, taken off its connection.
  [[nodiscard]] Result<Then> on_frame(const Frame& frame, const Messages& messages);
  // A message is here that may have crossed a request; true: it did, and messages may leave again.
  [[nodiscard]] bool on_message_here();
  // A message is through: the link is of use, what was said of it as an idle one is no longer so.
  void on_message_through();
  // About once a second.
  void tick();
  // Messages flow no longer: what is unwritten stays, for a peer that is alive.
  void on_failure() { closing_ = false; }
  void on_closed();

 private:
  [[nodiscard]] Result<Then> on_hint();
  [[nodiscard]] Result<Then> on_request(const Frame& frame, const Messages& messages);
  [[nodiscard]] Result<Then> on_answer(const Frame& frame);
  void queue(Frame::Type type, const Messages& messages);

  const bool begins_;
  bool closing_ = false;  // a request was sent; at the other end: its acceptance is being sent
  std::vector<std::byte> unwritten_;  // an answer, a hint before it
  bool refusal_due_ = false;          // a message crossed our request: a CloseRefuse will come
  bool refused_ = false;              // without one: the peer is busy, and again before long
  bool hinted_ = false;               // sent a hint, and no message has passed since
  uint32_t hint_ticks_ = 0;           // how long that counts as likely: the peer may not look
  bool hint_came_ = false;
};

}  // namespace ho::tcp
