// One flow of one member: a connection to the next member and one from the previous, and the
// messages that cross them. Nothing here blocks, and nothing is allocated once it exists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "core/rail/call.hpp"
#include "core/rail/window.hpp"

namespace ho::plugin::rail {

// Messages under way in each direction of a flow.
inline constexpr size_t kFlowDepth = 4;

// First in, first out, of at most kCapacity.
template <typename T, size_t kCapacity>
class BoundedQueue {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == kCapacity; }
  [[nodiscard]] T& front() { return items_[begin_]; }
  void push(T item) { items_[(begin_ + count_++) % kCapacity] = std::move(item); }
  void pop() {
    begin_ = (begin_ + 1) % kCapacity;
    --count_;
  }

 private:
  std::array<T, kCapacity> items_{};
  size_t begin_ = 0;
  size_t count_ = 0;
};

// The connections of a flow. Owned by the ring.
struct FlowLink {
  void* to_next = nullptr;        // a comm that sends
  void* from_previous = nullptr;  // a comm that receives
};

class Flow {
 public:
  struct Setup {
    NetDriver* driver = nullptr;
    FlowLink link;
    Walk::Flow flow;
    size_t number = 0;  // of all flows: the index into registrations
    uint32_t self = 0;
    uint32_t members = 0;
    uint64_t wanted_piece_bytes = 0;
    // kReduction: room for kSlots pieces of most_piece_bytes() that arrive to be reduced.
    std::byte* scratch = nullptr;
    const Registration* scratch_memory = nullptr;
  };
  [[nodiscard]] static uint64_t most_piece_bytes(uint64_t wanted) {
    return wanted != 0 ? wanted : kMaxPieceBytes;
  }
  // Pieces are held while they are received, wait to be sent on, and are sent.
  static constexpr size_t kSlots = 3 * kFlowDepth;

  explicit Flow(const Setup& setup);

  // Moves what can be moved. true: something did. `other`: of a flow of broadcasts, the flow
  // whose results it spreads in all-reduces; of a flow of reductions with two members, the flow
  // of the other's, which sends what this flow's result is written over when an exchange is in
  // place.
  [[nodiscard]] Result<bool> progress(Calls& calls, const Flow* other);

 private:
  struct Incoming {
    Message message;
    void* request = nullptr;
    std::byte* slot = nullptr;
  };
  struct Outgoing {
    Message message;
    void* request = nullptr;
    std::byte* slot = nullptr;
  };
  struct Reduced {
    Position position;
    std::byte* slot = nullptr;
  };

  [[nodiscard]] Result<bool> begin_receives(Calls& calls);
  [[nodiscard]] Result<bool> end_receives(Calls& calls, const Flow* other);
  [[nodiscard]] Result<bool> begin_sends(Calls& calls, const Flow* reductions);
  [[nodiscard]] Result<bool> end_sends(Calls& calls);
  // The memory that a message is sent from; null: its data is not there yet.
  [[nodiscard]] const std::byte* source_of(const RailCall& call,
                                           const Message& message,
                                           const Flow* reductions);
  [[nodiscard]] bool has_received(const Position& position) const {
    return received_.has_value() && !(*received_ < position);
  }
  // The bytes that an exchange in place overwrites are still being sent.
  [[nodiscard]] bool must_wait(const RailCall& call,
                               const Message& message,
                               const Flow* other) const;
  void take(const RailCall& call, const Incoming& incoming);
  [[nodiscard]] uint32_t neighbour(Walk::Side side) const;
  [[nodiscard]] Status failed(Reply reply,
                              Walk::Side side,
                              const char* what,
                              const Message& message) const;

  Setup setup_;
  Walk sends_;
  Walk receives_;
  BoundedQueue<Incoming, kFlowDepth> incoming_;
  BoundedQueue<Outgoing, kFlowDepth> outgoing_;
  BoundedQueue<Reduced, kSlots> reduced_;  // to be sent on
  std::vector<std::byte*> free_slots_;
  std::optional<Position> received_;  // all messages up to this one
  std::optional<Position> sent_;      // the same
};

}  // namespace ho::plugin::rail
