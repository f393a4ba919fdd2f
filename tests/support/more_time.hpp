// For cases that need a real limit of time to pass, and others to be faster than that. Where a slow
// machine was not, the case is tried again with twice the time.
#pragma once

#include <chrono>
#include <functional>

namespace ho::test {

// Calls `attempt` with that limit, then with doubled ones, until it returns true. False: it never
// did, which is no matter of time any more.
inline bool with_more_time(std::chrono::milliseconds limit,
                           const std::function<bool(std::chrono::milliseconds)>& attempt) {
  constexpr std::chrono::seconds kLongest{60};
  for (; limit < kLongest; limit *= 2) {
    if (attempt(limit)) {
      return true;
    }
  }
  return false;
}

}  // namespace ho::test
