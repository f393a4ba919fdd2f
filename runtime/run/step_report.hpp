// What a step was like. Values.
#pragma once

#include <chrono>
#include <cstdint>

#include "run/transfer.hpp"

namespace paro {

// What the ranks have decided on a step.
struct StepOutcome {
  uint64_t step = 0;       // of this runner's life, from 1; 0: none yet
  bool applied = true;     // false: something was not finite, and every rank left the step out
  double norm = 0;         // of the averaged, unscaled gradient, before clipping; inf, nan if it is
  double factor = 0;       // what sums of gradients are multiplied by
  double loss_scale = 1;   // that the step was run with
  bool signalled = false;  // by a rank or more (StepRunner::signal())
};

struct StepReport {
  uint64_t step = 0;  // of this runner's life, from 1
  uint32_t micro_batches = 0;
  double loss_scale = 1;  // that the step was run with
  // Of this step, or, where nobody waits for it, of the one before.
  StepOutcome outcome;
  // Since the last step() ended:
  uint64_t hooks = 0;
  uint64_t hook_ns = 0;  // in hooks and step(), without waiting and without the optimizer
  uint64_t wait_ns = 0;  // blocked for communication
  uint64_t update_ns = 0;
  uint64_t step_ns = 0;        // all of it
  uint64_t compute_ns = 0;     // between a before_ hook and its after_ hook, in the framework
  uint64_t collective_ns = 0;  // of all collectives that ended, one after the other
  SentBytes sent;              // by them
};

[[nodiscard]] inline uint64_t ns_between(std::chrono::steady_clock::time_point begin,
                                         std::chrono::steady_clock::time_point end) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
}

}  // namespace paro
