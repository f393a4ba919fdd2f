#include "transport/shm/doorbell.hpp"

#include <algorithm>

#include "os/futex.hpp"

namespace ho {
namespace {

constexpr uint32_t kAwakeWord = static_cast<uint32_t>(SleepMode::kAwake);

}  // namespace

void Bell::ring_if(bool wanted) {
  uint32_t mode = block_->mode.load(kOrdered);
  if (!wanted || mode == kAwakeWord ||
      !block_->mode.compare_exchange_strong(mode, kAwakeWord, kOrdered)) {
    return;
  }
  if (mode == static_cast<uint32_t>(SleepMode::kFutex)) {
    futex_wake(block_->mode, 1);
  } else {
    event_->ring();
  }
}

void Bell::message_published(bool urgent) {
  const uint32_t arrivals = block_->arrivals.fetch_add(1, kOrdered) + 1;
  if (block_->mode.load(kOrdered) == kAwakeWord) {
    return;
  }
  const bool counted = (block_->wants.load(kOrdered) & kWantsCount) != 0 &&
                       static_cast<int32_t>(arrivals - block_->wake_at.load(kOrdered)) >= 0;
  ring_if(urgent || counted);
}

void Bell::released() {
  if (block_->mode.load(kOrdered) != kAwakeWord) {
    ring_if((block_->wants.load(kOrdered) & kWantsReleases) != 0);
  }
}

void Bell::wake() {
  block_->wake_requested.store(1, kOrdered);
  ring_if(true);
}

void Sleeper::announce(SleepMode mode, uint32_t wants, uint32_t wake_at) {
  if (owed_rings_ > 0) {
    owed_rings_ -= std::min(owed_rings_, event_->drain());
  }
  announced_ = true;
  block_->wants.store(wants, kOrdered);
  block_->wake_at.store(wake_at, kOrdered);
  block_->mode.store(static_cast<uint32_t>(mode), kOrdered);
}

void Sleeper::sleep(Deadline deadline) {
  const auto asleep = static_cast<uint32_t>(SleepMode::kFutex);
  while (block_->mode.load(kOrdered) == asleep) {
    if (futex_wait(block_->mode, asleep, deadline) == FutexResult::kTimedOut) {
      return;
    }
  }
}

void Sleeper::finish(SleepMode mode) {
  if (!announced_) {
    return;
  }
  announced_ = false;
  const uint32_t before = block_->mode.exchange(kAwakeWord, kOrdered);
  if (mode == SleepMode::kEpoll && before == kAwakeWord) {
    ++owed_rings_;  // its ringer may not have reached the event fd yet
  }
  if (owed_rings_ > 0) {
    owed_rings_ -= std::min(owed_rings_, event_->drain());
  }
}

}  // namespace ho
