// How long a step takes when everything that may overlap does. Pure.
//
// The plan's tracks run its actions at once. Collectives that use the same link at the same
// time share it: each gets an equal part of its rate, and one that takes but a part of its time as
// much less. Steps follow one another, so that sync-p of
// one overlaps the forward pass of the next; the result is a step in the middle.
#pragma once

#include <cstdint>
#include <vector>

#include "step/step_plan.hpp"
#include "step/streams.hpp"
#include "step/timeline.hpp"

namespace paro {

struct CriticalPath {
  double step_s = 0;     // from one step's last update to the next one's
  double compute_s = 0;  // forward, backward and update of a step
  bool steady = true;    // micro-batches beyond the plan's take what they were seen to take
  // Communication that computation does not hide.
  [[nodiscard]] double exposed_s() const { return step_s - compute_s; }
};

// A step may have `further` micro-batches in its middle, beyond those of the plan, which are then
// at least three. What a track waits for lies within two micro-batches. So one that leaves every
// track where it found it, as far on, can be followed by any number that take as long. Where the
// plan has none the result is not steady: as long as its last but one is what each further one
// takes.
// `costs` are of the plan's actions, in their order.
[[nodiscard]] CriticalPath critical_path(const StepPlan& plan,
                                         const std::vector<ActionCost>& costs,
                                         uint32_t further = 0);

// The same on a device's streams.
[[nodiscard]] CriticalPath critical_path(const StepPlan& plan,
                                         const StepStreams& streams,
                                         const std::vector<ActionCost>& costs,
                                         Begins begins = Begins::kInOrder);

}  // namespace paro
