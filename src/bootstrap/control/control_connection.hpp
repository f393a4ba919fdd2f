// A control connection after its handshake: whole messages out and in over a non-blocking socket.
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
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

  explicit ControlConnection(Fd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  void queue(wire::Type type, uint64_t id, Body body);
  void queue(wire::Type type, uint64_t id = 0) { queue(type, id, nullptr); }
  [[nodiscard]] bool has_output() const { return !output_.empty(); }
  [[nodiscard]] size_t unsent_bytes() const { return unsent_bytes_; }
  // Sends what the socket takes now.
  [[nodiscard]] Status send_some();
  // Reads what is there now, bounded; false: the peer has closed its side.
  [[nodiscard]] Result<bool> read_some();
  [[nodiscard]] Result<std::optional<wire::Message>> next() { return splitter_.next(); }
  // No more output; the peer reads to the end.
  void end_output();

 private:
  struct Outgoing {
    wire::HeaderBytes header;
    Body body;
    size_t sent = 0;
    [[nodiscard]] size_t total() const { return header.size() + (body ? body->size() : 0); }
  };

  Fd fd_;
  std::deque<Outgoing> output_;
  size_t unsent_bytes_ = 0;
  wire::Splitter splitter_;
};

}  // namespace ho
