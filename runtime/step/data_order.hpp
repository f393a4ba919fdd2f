// Which actions of a step plan data orders, where each track is carried out in its order. Pure.
//
// An action that writes a buffer comes after all that used it, one that reads a buffer after the
// one that wrote it. Two steps are looked at: what an action of the second has to do with the one
// before, and an action of the first with the one after.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "step/step_plan.hpp"

namespace paro {

// An action of the two steps: those of the first, then those of the second.
using StepActionNumber = size_t;
inline constexpr StepActionNumber kNoAction = SIZE_MAX;

class DataOrder {
 public:
  explicit DataOrder(const StepPlan& plan);

  [[nodiscard]] size_t size() const { return before_.size(); }
  [[nodiscard]] const Action& action(StepActionNumber at) const {
    return plan_.actions[at % plan_.actions.size()];
  }
  [[nodiscard]] size_t track_of(StepActionNumber at) const {
    return static_cast<size_t>(action(at).track);
  }
  // By track, the last action there that it comes directly after, or kNoAction. On its own track
  // that is the one before it.
  [[nodiscard]] const std::array<StepActionNumber, kTrackCount>& before(StepActionNumber at) const {
    return before_[at];
  }

 private:
  void come_after(StepActionNumber at, StepActionNumber earlier);

  const StepPlan& plan_;
  std::vector<std::array<StepActionNumber, kTrackCount>> before_;
};

}  // namespace paro
