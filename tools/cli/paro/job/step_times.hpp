// What a step took of time and memory.
#pragma once

#include "state/memory.hpp"

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

// Of the rank that is predicted to hold most, and of the one that held most, when it did.
struct PeakMemory {
  MemoryUse predicted;
  MemoryUse actual;
};

}  // namespace paro::tool
