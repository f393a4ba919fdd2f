// What an action of a step plan needs, alone on its link.
#pragma once

#include <cstdint>
#include <vector>

#include "step/step_plan.hpp"

namespace paro {

struct ActionCost {
  double seconds = 0;
  // Whether it holds up the links between groups or those inside them; neither for computation.
  enum class Link : uint8_t { kNone, kInter, kIntra } link = Link::kNone;
  // Of that time, the share that it takes of the other kind's, where it moves on both at once.
  double beside = 0;

  // What it takes of a link, as a share of that link's time.
  [[nodiscard]] double held(Link which) const {
    return link == Link::kNone ? 0 : link == which ? 1 : beside;
  }
};

// By action, for a plan of which nothing is known but its units' elements: computation, links
// inside groups and links between them that take one another's time, more or less.
[[nodiscard]] std::vector<ActionCost> assumed_costs(const StepPlan& plan);

}  // namespace paro
