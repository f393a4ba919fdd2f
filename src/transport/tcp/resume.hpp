// What the two ends of a link say to each other on connections that replace others, before any
// message. Pure: no socket and no clock.
//
// Each end first says that it has come over (kSwitch). From then on it believes no acknowledgement
// of its old connections. An end that reads this takes from its old connections all that is there,
// so it has all that the other end may believe to have arrived; then it says how many messages it
// has received (kCount). An end that reads a count sends again what is missing, and goes on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "transport/frame.hpp"

namespace ho::tcp {

class Resume {
 public:
  enum class Then : uint8_t {
    kState,  // the peer has come over: empty the old connections, then state_count()
    kGoOn,   // the peer has counted: see peer_count()
  };

  // Of the connections of that epoch, of a link of that communicator.
  Resume(uint32_t epoch, uint16_t communicator);

  void state_count(uint64_t received);
  [[nodiscard]] bool stated() const { return stated_; }
  [[nodiscard]] bool peer_counted() const { return peer_counted_; }
  [[nodiscard]] uint64_t peer_count() const { return peer_count_; }
  // Messages may follow, both ways.
  [[nodiscard]] bool complete() const { return stated_ && peer_counted_ && unwritten_.empty(); }

  // A frame of the peer's that is no message.
  [[nodiscard]] Result<Then> on_frame(const Frame& frame);

  // What is to be written before any message.
  [[nodiscard]] std::span<std::byte> unwritten() { return unwritten_; }
  void wrote(size_t bytes);

 private:
  void queue(Frame::Type type, uint64_t count);

  uint32_t epoch_;
  uint16_t communicator_;
  bool peer_switched_ = false;
  bool stated_ = false;
  bool peer_counted_ = false;
  uint64_t peer_count_ = 0;
  std::vector<std::byte> unwritten_;
};

}  // namespace ho::tcp
