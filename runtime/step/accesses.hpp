// Which buffers of a rank each action of a step plan reads and writes. Pure.
//
// Two actions that use one buffer, of which one writes it, must not run at the same time: the plan
// orders them on a host (verify_order()), and its events on a device's streams (verify_streams()).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "step/step_plan.hpp"

namespace paro {

enum class Store : uint8_t {
  kParameters,      // by unit
  kGathered,        // by buffer of a computation's slot
  kGatheredFrozen,  // the same
  kSum,             // of gradients, by unit
  kBackwardOutput,  // by buffer of a reduction in a micro-batch
  kPack,            // by buffer of a merged reduction
  kMaster,          // by unit, and the optimizer's state
  kDecision,        // of the ranks' agreement: whether the step is taken, and the factor
};
// Its kind, and which of those.
using Buffer = std::pair<Store, uint32_t>;

struct Access {
  Buffer buffer;
  bool writes = false;
};

// By action.
[[nodiscard]] std::vector<std::vector<Access>> accesses_of(const StepPlan& plan);

}  // namespace paro
