// A control connection after its handshake: whole messages out and in over a non-blocking socket.
// One thread at a time.
//
// One that keeps what it sends outlives its socket (docs/design/adr/0046-control-failover.md): the
// messages of each direction are counted, each end says now and then how many have come, and over
// another socket what the peer has not counted is sent again.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "os/close_on_fork.hpp"
#include "os/fd.hpp"

namespace ho {

class ControlConnection {
 public:
  // A body may be shared by many channels.
  using Body = std::shared_ptr<const wire::Buffer>;
  [[nodiscard]] static Body body_of(wire::Buffer buffer) {
    return std::make_shared<const wire::Buffer>(std::move(buffer));
  }
  template <typename Message>
  [[nodiscard]] static Body body_of(const Message& message) {
    return body_of(wire::encode(message));
  }
  [[nodiscard]] static Body outcome_body(const Status& status) {
    return body_of(wire::Outcome{status.code(), status.message()});
  }

  explicit ControlConnection(Fd fd, bool keeps = false)
      : fd_(std::move(fd)), close_on_fork_(fd_.get()), keeps_(keeps) {}

  [[nodiscard]] bool keeps() const { return keeps_; }
  // The socket is lost. What is queued waits for another one.
  void lose() { set_fd({}); }
  [[nodiscard]] bool is_open() const { return fd_.valid(); }
  // Goes on over that one. The end that was dialled knows how much the peer has counted, and says
  // its own count first; the other end hears that before it sends anything.
  [[nodiscard]] Status resume(Fd fd, std::optional<uint64_t> counted);
  // Until it has heard it.
  [[nodiscard]] bool awaits_count() const { return awaits_count_; }
  // Messages that have come.
  [[nodiscard]] uint64_t received() const { return received_; }
  // Tells the peer.
  void tell_received();
  // The peer has counted all that was queued.
  [[nodiscard]] bool all_counted() const { return output_.empty() && kept_.empty(); }

  [[nodiscard]] int fd() const { return fd_.get(); }
  void queue(wire::Type type, uint64_t id, Body body);
  void queue(wire::Type type, uint64_t id = 0) { queue(type, id, nullptr); }
  [[nodiscard]] bool has_output() const { return !output_.empty() && sends(); }
  [[nodiscard]] size_t unsent_bytes() const { return unsent_bytes_; }
  // With what was sent and the peer has not counted.
  [[nodiscard]] size_t held_bytes() const { return unsent_bytes_ + kept_bytes_; }
  // Sends what the socket takes now.
  [[nodiscard]] Status send_some();
  // Reads what is there now, bounded; false: the peer has closed its side.
  [[nodiscard]] Result<bool> read_some();
  // The next whole message. Where this keeps messages it may leave output.
  [[nodiscard]] Result<std::optional<wire::Message>> next();
  // Tells a peer whose connection has just been opened that it's not wanted, and why.
  static void refuse(Fd fd, const Status& why);
  // No more output; the peer reads to the end.
  void end_output();

 private:
  struct Outgoing {
    wire::HeaderBytes header;
    Body body;
    bool counts = true;
    size_t sent = 0;
    [[nodiscard]] size_t total() const { return header.size() + (body ? body->size() : 0); }
  };

  void set_fd(Fd fd) {
    close_on_fork_.set(CloseOnFork::kNone);
    fd_ = std::move(fd);
    close_on_fork_.set(fd_.get());
  }
  [[nodiscard]] bool sends() const { return fd_.valid() && !awaits_count_; }
  void push(Outgoing message);
  [[nodiscard]] Status note_counted(uint64_t count);
  void send_again();

  Fd fd_;
  CloseOnFork close_on_fork_;
  bool keeps_;
  bool awaits_count_ = false;
  std::deque<Outgoing> output_;
  std::deque<Outgoing> kept_;  // sent, and not counted by the peer so far
  uint64_t counted_ = 0;       // by the peer
  uint64_t received_ = 0;
  uint64_t reported_ = 0;    // of them
  size_t untold_bytes_ = 0;  // of those that the peer has not been told of
  size_t unsent_bytes_ = 0;
  size_t kept_bytes_ = 0;
  wire::Splitter splitter_;
};

}  // namespace ho
