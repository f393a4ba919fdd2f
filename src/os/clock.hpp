// Monotonic time and deadlines.
#pragma once

#include <chrono>
#include <cstdint>

namespace ho {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

[[nodiscard]] inline Deadline deadline_after(std::chrono::milliseconds duration) {
  const auto now = Clock::now();
  // A huge duration means "never", not an overflow into the past.
  return duration > Deadline::max() - now ? Deadline::max() : now + duration;
}

[[nodiscard]] inline bool passed(Deadline deadline) {
  return Clock::now() >= deadline;
}

// Time left, never negative.
[[nodiscard]] inline std::chrono::nanoseconds left(Deadline deadline) {
  const auto now = Clock::now();
  return deadline > now ? deadline - now : std::chrono::nanoseconds(0);
}

[[nodiscard]] inline int64_t ns_of(std::chrono::milliseconds duration) {
  return std::chrono::nanoseconds(duration).count();
}

// As now_ns() counts.
[[nodiscard]] inline int64_t ns_of(Deadline time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

[[nodiscard]] inline int64_t now_ns() {
  return ns_of(Clock::now());
}

}  // namespace ho
