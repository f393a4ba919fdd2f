// Sleeping until a peer has news, without a lost wake-up and with few needless ones.
//
// Ranks outnumber cores, so a wake-up after which the sleeper only checks and sleeps again is the
// most expensive thing here. A sleeper therefore publishes what it waits for (a number of arrivals,
// releases) and the peers decide: they ring only when their event completes that.
//
// No wake-up is lost because both sides write first and read second, all sequentially consistent:
//   sleeper:  mode := asleep;   then checks arrivals, rings and acknowledgements once more
//   ringer:   publishes;        then reads mode
// In the one total order of these operations, either the sleeper's second check is after the
// ringer's publication and finds it, or the ringer's read is after the sleeper's mode and rings.
// The ringer that turns mode back to awake (a compare-and-swap, so exactly one does) makes the
// system call. It may act on what an earlier sleep waited for, which costs a wake-up, never loses
// one.
#pragma once

#include <cstdint>

#include "os/clock.hpp"
#include "os/event_fd.hpp"
#include "transport/shm/segment.hpp"

namespace ho {

enum class SleepMode : uint32_t { kAwake = 0, kFutex = 1, kEpoll = 2 };

inline constexpr uint32_t kWantsCount = 1;
inline constexpr uint32_t kWantsReleases = 2;

// A peer's side. Also the owner's own for wake().
class Bell {
 public:
  Bell(DoorbellBlock& block, const EventFd& event) : block_(&block), event_(&event) {}

  // After the last byte of a message: `urgent` if a ring of the sleeper became half full.
  void message_published(bool urgent);
  // After a part of a message made a ring half full.
  void ring_half_full() { ring_if(true); }
  // After an acknowledgement, or space for a producer that waits for it.
  void released();
  // From any thread of the owner; remembered when it is awake.
  void wake();

 private:
  void ring_if(bool wanted);

  DoorbellBlock* block_;
  const EventFd* event_;
};

// The owner's side.
class Sleeper {
 public:
  Sleeper(DoorbellBlock& block, const EventFd& event) : block_(&block), event_(&event) {}

  // Arrivals so far. Take it before counting the news in the rings.
  [[nodiscard]] uint32_t arrivals() const {
    return block_->arrivals.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool wake_requested() const {
    return block_->wake_requested.load(std::memory_order_seq_cst) != 0;
  }
  // Announces the sleep. Everything must be checked once more after it.
  void announce(SleepMode mode, uint32_t wants, uint32_t wake_at);
  [[nodiscard]] bool count_reached(uint32_t wants, uint32_t wake_at) const {
    return (wants & kWantsCount) != 0 && static_cast<int32_t>(arrivals() - wake_at) >= 0;
  }
  // Until a ringer ends the announced futex sleep, or the deadline.
  void sleep(Deadline deadline);
  // Back to awake, whether woken or not; swallows the rings of the event fd that belong to it.
  // Nothing where no sleep was announced.
  void finish(SleepMode mode);
  // The rank is awake and will check everything: a wake() request is hereby served.
  void serve_wake_request() { block_->wake_requested.store(0, std::memory_order_seq_cst); }

 private:
  DoorbellBlock* block_;
  const EventFd* event_;
  bool announced_ = false;
  uint64_t owed_rings_ = 0;  // rings of the event fd that ringers have claimed, not drained yet
};

}  // namespace ho
