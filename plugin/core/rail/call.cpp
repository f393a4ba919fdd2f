#include "core/rail/call.hpp"

#include <algorithm>

namespace ho::plugin::rail {

RailCall* Calls::free_call() {
  const uint64_t next = entered_.load(std::memory_order_relaxed);
  // Both threads must be through with the call whose slot it was.
  const uint64_t in_use = std::min(released_, first_.load(std::memory_order_acquire));
  return next - in_use < kMaxCalls ? &slots_[next % kMaxCalls].call : nullptr;
}

uint64_t Calls::publish(uint64_t message_count) {
  const uint64_t number = entered_.load(std::memory_order_relaxed);
  Slot& slot = slots_[number % kMaxCalls];
  slot.messages_left = message_count;
  slot.released = false;
  slot.complete.store(message_count == 0, std::memory_order_relaxed);
  entered_.store(number + 1, std::memory_order_release);
  return number;
}

bool Calls::complete(uint64_t number) const {
  return slots_[number % kMaxCalls].complete.load(std::memory_order_acquire);
}

void Calls::release(uint64_t number) {
  slots_[number % kMaxCalls].released = true;
  while (released_ < entered_.load(std::memory_order_relaxed) &&
         slots_[released_ % kMaxCalls].released) {
    ++released_;
  }
}

void Calls::message_done(uint64_t number) {
  Slot& slot = slots_[number % kMaxCalls];
  if (--slot.messages_left == 0) {
    slot.complete.store(true, std::memory_order_release);
  }
}

void Calls::pass_complete() {
  uint64_t first = first_.load(std::memory_order_relaxed);
  while (first < end() && slots_[first % kMaxCalls].complete.load(std::memory_order_relaxed)) {
    ++first;
  }
  first_.store(first, std::memory_order_release);
}

}  // namespace ho::plugin::rail
