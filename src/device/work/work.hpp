// Copies and sums that one communicator has started on its device, and which of them have
// completed. Nothing here waits for the device but drain(), which is for failures.
//
// There are two streams. What leaves the caller's buffers goes through one, and what arrives there
// (copies, sums, copies within the device) through the other, so that both directions of the bus
// are busy. Work of one stream completes in the order in which it was started. Between the streams,
// and towards the network, the caller orders work by starting it only when what it needs has
// completed.
//
// Driven by one thread at a time (the engine's driver), but for wait_fd().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"
#include "device/kernels/shared_kernels.hpp"
#include "os/clock.hpp"
#include "os/event_fd.hpp"

namespace ho::device {

enum class Direction : uint8_t { kLeaves, kArrives };

// Names work that was started.
struct Ticket {
  Direction direction = Direction::kLeaves;
  uint64_t number = 0;  // from 1; 0: completed when it was started
};

struct CopyRange {
  void* to;
  const void* from;
  size_t bytes;
};

class Work {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Work>> create(std::shared_ptr<Device> device);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Whether one more copy or sum may be started; as many as can be remembered may be under way.
  [[nodiscard]] Result<bool> has_room(Direction direction) { return room(lane(direction)); }
  // Nothing: there is no room. The memory must stay, and
  // nobody may read what is written or write what is read, until the ticket has completed.
  [[nodiscard]] Result<std::optional<Ticket>> copy(Direction, std::span<const CopyRange> ranges);
  [[nodiscard]] Result<std::optional<Ticket>> sum(const SumKind& kind, std::span<const Sum> sums);

  [[nodiscard]] Result<std::optional<Ticket>> premultiply(
      DType dtype, void* to, const void* from, uint64_t elements, double factor);

  [[nodiscard]] Result<bool> completed(const Ticket& ticket);
  [[nodiscard]] Result<bool> passed(const Event& event) const;
  [[nodiscard]] bool pending() const;
  // The descriptor becomes readable when the oldest work of either direction has completed. What
  // is started later does not wait for that.
  [[nodiscard]] Status wake_when_completed();
  [[nodiscard]] int wait_fd() const { return wake_->fd(); }
  void clear_wake() { (void)wake_->drain(); }
  // What `stream` gets from now on comes after all that was started here.
  [[nodiscard]] Status make_wait(StreamHandle stream);
  // Waits until nothing is under way, or the device has failed, or the deadline has passed.
  [[nodiscard]] Status drain(Deadline deadline);

  // Memory that is kept for later when it is given back. Allocating may wait for the device: only
  // while a size is used for the first time.
  [[nodiscard]] Result<PinnedMemory> take_pinned(size_t bytes);
  [[nodiscard]] Result<DeviceMemory> take_device(size_t bytes);
  void give_back(PinnedMemory memory) { pinned_.unused.push_back(std::move(memory)); }
  void give_back(DeviceMemory memory) { on_device_.unused.push_back(std::move(memory)); }
  [[nodiscard]] uint64_t memory_bytes() const { return pinned_.bytes; }
  [[nodiscard]] const Device& device() const { return *device_; }

 private:
  static constexpr uint64_t kMaxUnderWay = 64;  // of a stream
  struct Lane {
    Stream stream;
    Stream waker;               // waits for events of `stream`, and calls the host
    std::vector<Event> events;  // of ticket n: n modulo their number
    uint64_t started = 0;
    uint64_t completed = 0;
    bool untracked = false;  // it was given something that no ticket stands for: a call failed
    uint64_t armed = 0;      // of the last ticket for which a wake-up was asked for
  };
  template <typename Memory>
  struct Kept {
    std::vector<Memory> unused;
    uint64_t bytes = 0;  // in use too
  };
  template <typename Memory>
  [[nodiscard]] Result<Memory> take(Kept<Memory>& kept, size_t bytes);
  Work(std::shared_ptr<Device> device,
       std::array<Lane, 2> lanes,
       std::shared_ptr<const Kernels> kernels,
       EventFd wake);
  [[nodiscard]] Lane& lane(Direction direction) {
    return lanes_.at(static_cast<size_t>(direction));
  }
  // Whether one more may be started.
  [[nodiscard]] Result<bool> room(Lane& lane);
  [[nodiscard]] Status look(Lane& lane);  // for what has completed
  // Of a call that put something into the lane's stream, or has failed to.
  [[nodiscard]] Status tracked(Lane& lane, const Status& status);
  [[nodiscard]] Status named(const Status& status) const;
  [[nodiscard]] Status end_untracked();
  // Names what was just put into the direction's stream.
  [[nodiscard]] Result<std::optional<Ticket>> started(Direction direction);

  const std::shared_ptr<Device> device_;
  // The streams end first, and wait for what they were given: it may use all of this.
  const std::unique_ptr<EventFd> wake_;  // host functions have its address
  Kept<PinnedMemory> pinned_;
  Kept<DeviceMemory> on_device_;
  const std::shared_ptr<const Kernels> kernels_;
  std::array<Lane, 2> lanes_;
};

}  // namespace ho::device
