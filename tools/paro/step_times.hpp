// What a step took of time and memory.
#pragma once

#include <cstdint>

namespace paro::tool {

// Times in seconds per step, means over all ranks, but `exposed`, which is what the rank that
// waited least waited for communication, and `idle`, what the others waited beyond that: for ranks
// that were late.
struct StepTimes {
  double step = 0;
  double compute = 0;
  double exposed = 0;
  double idle = 0;
  double update = 0;
  double hooks = 0;     // the runtime's own work
  double per_hook = 0;  // of that, one hook
};

// Of the fullest rank.
struct PeakMemory {
  uint64_t predicted = 0;
  uint64_t actual = 0;
};

}  // namespace paro::tool
