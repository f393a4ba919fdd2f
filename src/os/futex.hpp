// Sleeping on a 32-bit word in memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/clock.hpp"

namespace ho {

enum class FutexResult : uint8_t {
  kWoken,     // by futex_wake, or for no reason: look at the word again
  kChanged,   // the word was not `expected` any more
  kTimedOut,  // the deadline passed
};

// Sleeps while word == expected, until woken or the deadline.
[[nodiscard]] FutexResult futex_wait(const std::atomic<uint32_t>& word,
                                     uint32_t expected,
                                     Deadline deadline);
// Wakes at most `count` sleepers.
void futex_wake(const std::atomic<uint32_t>& word, int count);

}  // namespace ho
