// How long a step takes when everything that may overlap does. Pure.
//
// The plan's tracks run its actions at once. Collectives that use the same link at the same
// time share it: each gets an equal part of its rate. Steps follow one another, so that sync-p of
// one overlaps the forward pass of the next; the result is a step in the middle.
#pragma once

#include <array>
#include <functional>

#include "step/step_plan.hpp"

namespace paro {

// What an action needs, alone on its link.
struct ActionCost {
  double seconds = 0;
  // Whether it holds up the links between groups or those inside them; neither for computation.
  enum class Link : uint8_t { kNone, kInter, kIntra } link = Link::kNone;
};

struct CriticalPath {
  double step_s = 0;     // from one step's last update to the next one's
  double compute_s = 0;  // forward, backward and update of a step
  // Communication that computation does not hide.
  [[nodiscard]] double exposed_s() const { return step_s - compute_s; }
};

[[nodiscard]] CriticalPath critical_path(const StepPlan& plan,
                                         const std::function<ActionCost(const Action&)>& cost_of);

}  // namespace paro
