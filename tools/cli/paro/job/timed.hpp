// Computation that takes at least so long, as if a device did it.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "run/step_runner.hpp"

namespace paro::toy {

// Runs `body`; what is left of the time the process sleeps, and polls the runner.
template <typename Body>
[[nodiscard]] ho::Status timed(StepRunner& runner,
                               std::chrono::nanoseconds least,
                               const Body& body) {
  constexpr std::chrono::milliseconds kPoll(1);
  const auto start = std::chrono::steady_clock::now();
  body();
  auto now = std::chrono::steady_clock::now();
  while (now < start + least) {
    std::this_thread::sleep_until(std::min(now + kPoll, start + least));
    HORING_TRY(runner.poll());
    now = std::chrono::steady_clock::now();
  }
  return {};
}

}  // namespace paro::toy
