// Copies and sums that one communicator has started on its device, and which of them have
// completed. Nothing here waits for the device but drain(), which is for failures.
//
// A start costs the host some microseconds however much it moves. So what is given is gathered, and
// start() gives it to the device: all of a direction at once, as one piece of work that completes
// as a whole. While kStartsAhead of these are under way the device has enough to do, and what is
// given meanwhile waits for the next one.
//
// There are four streams. What leaves the caller's buffers and what arrives there (copies, sums)
// have two each: for what crosses the bus on its way to or from the network, and for what stays on
// devices. So both directions of the bus are busy, and what the network waits for waits for nothing
// else. Work of one stream completes in the order in which it was given. Everything else the caller
// orders, by giving work only when what it needs has completed.
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

enum class Direction : uint8_t { kLeaves, kArrives, kLeavesInside, kArrivesInside };
inline constexpr size_t kDirections = 4;

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

  // Whether one more copy or sum may be given: there is a bound for what one start takes, so that
  // what it completes together does not keep its readers waiting, and for how many are under way.
  [[nodiscard]] Result<bool> may_start(Direction direction) { return may_start(queue(direction)); }
  // Nothing: there is no room. The memory must stay, and nobody may read what is written or write
  // what is read, until the ticket has completed; nor may what is given later, before that.
  [[nodiscard]] Result<std::optional<Ticket>> copy(Direction, std::span<const CopyRange> ranges);
  [[nodiscard]] Result<std::optional<Ticket>> sum(Direction,
                                                  const SumKind& kind,
                                                  std::span<const Sum> sums);

  [[nodiscard]] Result<std::optional<Ticket>> premultiply(
      DType dtype, void* to, const void* from, uint64_t elements, double factor);

  // Asks the device what has completed, once for each piece of work that has. True: some has.
  [[nodiscard]] Result<bool> look();
  // Starts what was given, but where enough is under way.
  [[nodiscard]] Status start();
  // What was given and not started never is. Their tickets mean nothing any more.
  void forget_unstarted();
  // As far as look() knows. Of many pieces a call costs nothing.
  [[nodiscard]] bool completed(const Ticket& ticket) const {
    return queues_.at(static_cast<size_t>(ticket.direction)).completed >= ticket.number;
  }
  [[nodiscard]] bool started(const Ticket& ticket) const {
    return queues_.at(static_cast<size_t>(ticket.direction)).started >= ticket.number;
  }
  [[nodiscard]] Result<bool> passed(const Event& event) const;
  [[nodiscard]] bool pending() const;
  // The descriptor becomes readable when the oldest work of either direction has completed. What
  // is started later does not wait for that.
  [[nodiscard]] Status wake_when_completed();
  [[nodiscard]] int wait_fd() const { return wake_->fd(); }
  void clear_wake() { (void)wake_->drain(); }
  // What `stream` gets from now on comes after all that was given here, which is started.
  [[nodiscard]] Status make_wait(StreamHandle stream);
  // Starts what was given, and waits until nothing is under way, or the device has failed, or the
  // deadline has passed.
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
  static constexpr uint64_t kStartsAhead = 2;   // one that runs, and one that follows at once
  static constexpr size_t kPiecesPerStart = 4;
  struct SumsOfKind {
    SumKind kind;
    std::vector<Sum> sums;
  };
  // Given, and not started. No two ranges touch what one of them writes.
  struct Gathered {
    std::vector<CopyRange> copies;
    std::vector<SumsOfKind> sums;
    size_t pieces = 0;
    [[nodiscard]] bool empty() const { return copies.empty() && sums.empty(); }
  };
  struct Queue {
    Stream stream;
    Stream waker;               // waits for events of `stream`, and calls the host
    std::vector<Event> events;  // of ticket n: n modulo their number
    Gathered gathered{};        // has the ticket after those that were started
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
       std::array<Queue, kDirections> queues,
       std::shared_ptr<const Kernels> kernels,
       EventFd wake);
  [[nodiscard]] Queue& queue(Direction direction) {
    return queues_.at(static_cast<size_t>(direction));
  }
  // Whether one more may be started.
  [[nodiscard]] Result<bool> may_start(Queue& queue);
  [[nodiscard]] Status look(Queue& queue);  // for what has completed
  // Of a call that put something into the queue's stream, or has failed to.
  [[nodiscard]] Status tracked(Queue& queue, const Status& status);
  [[nodiscard]] Status named(const Status& status) const;
  [[nodiscard]] Status end_untracked();
  // Of what was given last. Completed at once, where that was nothing.
  [[nodiscard]] Ticket last_ticket(Direction direction);
  [[nodiscard]] Status start(Queue& queue);
  [[nodiscard]] Status start_all();
  [[nodiscard]] Status put_copies(const Queue& queue) const;
  [[nodiscard]] bool is_inside(const Queue& queue) const {
    return &queue >= &queues_[static_cast<size_t>(Direction::kLeavesInside)];
  }
  // An event after what was just put into the queue's stream.
  [[nodiscard]] Status record(Queue& queue);

  const std::shared_ptr<Device> device_;
  // The streams end first, and wait for what they were given: it may use all of this.
  const std::unique_ptr<EventFd> wake_;  // host functions have its address
  Kept<PinnedMemory> pinned_;
  Kept<DeviceMemory> on_device_;
  const std::shared_ptr<const Kernels> kernels_;
  std::array<Queue, kDirections> queues_;
};

}  // namespace ho::device
