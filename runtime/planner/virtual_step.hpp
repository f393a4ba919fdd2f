// A strategy's step, run in virtual time as the step plan has it. Pure.
//
// A unit of the model is a unit of the plan, and each collective takes the seconds that the
// formulas of communication give for its bytes. Of many micro-batches a few are run: the middle
// ones repeat one another.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "cost/links.hpp"
#include "planner/request.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// What one kind of links has to do with a step.
struct LinkTime {
  double busy_s = 0;  // the step's collectives on them, one after the other
  double gain_s = 0;  // by how much the step would be shorter if they took no time at all
};

struct VirtualStep {
  double step_s = 0;  // no less than what a rank computes
  LinkTime intra;     // links inside groups
  LinkTime inter;     // and between them
};

// Gains take two more runs.
enum class Gains : uint8_t { kNo, kYes };

// For a request that check() accepts and with_batch() has completed, on `links` in place of its
// own.
[[nodiscard]] ho::Result<VirtualStep> virtual_step(const Strategy& strategy,
                                                   const PlannerRequest& request,
                                                   const Links& links,
                                                   Gains gains);

// What a rank computes in a step, its part of the update included.
[[nodiscard]] double computing_s(const Strategy& strategy, const PlannerRequest& request);

}  // namespace paro
