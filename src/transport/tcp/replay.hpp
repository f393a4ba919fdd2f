// What a link has sent and does not know to have arrived, so that it can be sent again over another
// path. Small messages are copied; large ones stay where the caller has them until they have
// arrived, or until they are copied because the caller waits. Pure: no socket and no clock.
//
// A message has arrived when the peer has counted it, or when the peer's host has acknowledged its
// last byte: what a host has acknowledged its process reads before it counts (resume.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "transport/frame.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

// Where copies lie. What was used last is used again first: it is in the processor's caches.
class CopyMemory {
 public:
  static constexpr uint64_t kMaxSpareBytes = uint64_t{1} << 20;

  // Empty, with room for that many bytes.
  [[nodiscard]] std::vector<std::byte> take(size_t bytes);
  void give_back(std::vector<std::byte>&& buffer);
  [[nodiscard]] uint64_t spare_bytes() const { return spare_bytes_; }

 private:
  std::vector<std::vector<std::byte>> spare_;
  uint64_t spare_bytes_ = 0;
};

// What may be copied of large messages, and what all copies take. Links of several communicators,
// each with a thread of its own, may share the second.
struct ReplayBudget {
  // By all links of this process.
  [[nodiscard]] static std::atomic<uint64_t>& used_by_process();

  std::atomic<uint64_t>& used_bytes;
  uint64_t most_bytes = uint64_t{32} << 20;
  CopyMemory memory{};  // of one thread
};

class Replay {
 public:
  // What is not larger is always copied, and at once: no caller keeps it. As much of it is kept as
  // the kernels' send buffers hold.
  static constexpr size_t kCopiedBytes = 16384;
  // Of a message that has not been written to the connections that there are now.
  static constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();

  struct Message {
    FrameBytes header{};
    std::vector<ConstBytes> payload;  // the caller's memory, or `copy`
    std::vector<std::byte> copy;
    size_t payload_bytes = 0;
    size_t connection = 0;
    uint64_t end = kNowhere;  // bytes of that connection up to its last one
    bool lent = false;        // the payload is the caller's memory
  };

  explicit Replay(ReplayBudget& budget) : budget_(budget) {}
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Where a message was written to: up to which byte of which connection.
  struct Written {
    size_t connection = 0;
    uint64_t end = 0;
  };
  // Message next(), which has been written.
  void keep(const FrameBytes& header, std::span<const ConstBytes> payload, const Written& where);
  [[nodiscard]] uint64_t next() const { return first_ + messages_.size(); }
  [[nodiscard]] bool empty() const { return messages_.empty(); }
  [[nodiscard]] size_t size() const { return messages_.size(); }
  // How many messages, from the first, no longer need the caller's memory.
  [[nodiscard]] uint64_t released() const;

  // By connection: bytes that the peer's host has acknowledged.
  void on_acknowledged(std::span<const uint64_t> bytes);
  // The peer has received that many. An error: it cannot have.
  [[nodiscard]] Status on_counted(uint64_t count);
  // The connections are given up: nothing that they still say counts.
  void on_connections_lost();

  // Of what is kept.
  [[nodiscard]] const Message& at(uint64_t number) const {
    return messages_.at(static_cast<size_t>(number - first_));
  }
  void on_sent_again(uint64_t number, const Written& where);
  // Copies what is lent of the messages before that one, oldest first, as far as the budget goes.
  void copy_lent(uint64_t before);

  [[nodiscard]] uint64_t memory_bytes() const { return copied_bytes_; }

 private:
  [[nodiscard]] bool fits(const Message& message) const {
    return budget_.used_bytes + message.payload_bytes <= budget_.most_bytes;
  }
  void copy(Message& message);
  void drop_first();

  ReplayBudget& budget_;
  std::deque<Message> messages_;
  uint64_t first_ = 0;  // number of the oldest, or of the next one
  uint64_t copied_bytes_ = 0;
  size_t lent_ = 0;
};

}  // namespace ho::tcp
