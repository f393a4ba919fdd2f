// When to ask the other ranks about an operation that does not move. It may wait for a slow rank,
// or for one that has made another call: then no message need ever tell. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "os/clock.hpp"

namespace ho {

class LongWait {
 public:
  static constexpr std::chrono::milliseconds kLongest{1000};  // before the first question

  // done: how far the operation is. True: ask now. First after a quarter of its timeout, at most
  // `kLongest`, in which it has not moved; then after twice as long each time, for ranks that come
  // later.
  [[nodiscard]] bool take_due(uint64_t done, std::chrono::milliseconds timeout, Deadline now) {
    if (!next_ || done != done_) {
      done_ = done;
      pause_ = std::min(kLongest, timeout / 4);
      next_ = now + pause_;
      return false;
    }
    if (now < *next_) {
      return false;
    }
    pause_ *= 2;
    next_ = now + pause_;
    return true;
  }
  [[nodiscard]] Deadline next() const { return next_.value_or(Deadline::max()); }

 private:
  uint64_t done_ = 0;
  std::chrono::milliseconds pause_{0};
  std::optional<Deadline> next_;
};

}  // namespace ho
