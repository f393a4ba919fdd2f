// Which action of which step: numbers of distinct types, and a place in a list of actions that is
// gone through once a step. Pure values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "step/step_plan.hpp"

namespace paro {

// A step of a runner's life, from 0. Wider than ho::Index: a checkpoint may bring any number.
struct StepIndex {
  uint64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend constexpr auto operator<=>(const StepIndex&, const StepIndex&) = default;
};
[[nodiscard]] constexpr StepIndex next(StepIndex step) {
  return {step.value + 1};
}
// `step` is not the first.
[[nodiscard]] constexpr StepIndex previous(StepIndex step) {
  return {step.value - 1};
}
// As people count: "step 1" is the first.
[[nodiscard]] inline std::string name(StepIndex step) {
  return "step " + std::to_string(step.value + 1);
}

// An action of one step.
struct StepAction {
  StepIndex step;
  ActionId action;
  friend constexpr bool operator==(const StepAction&, const StepAction&) = default;
};

// What comes next of some actions that every step has, in their order.
class StepCursor {
 public:
  void add(ActionId action) { actions_.push_back(action); }
  // Of each step. Without any there is nothing at the cursor.
  [[nodiscard]] size_t size() const { return actions_.size(); }
  [[nodiscard]] bool empty() const { return actions_.empty(); }
  [[nodiscard]] StepAction step_action() const { return {step_, actions_[index_]}; }
  // How many actions of its step are before it.
  [[nodiscard]] size_t index() const { return index_; }
  void advance() {
    if (++index_ == actions_.size()) {
      go_to(next(step_));
    }
  }
  // Before the first action of that step.
  void go_to(StepIndex step) {
    step_ = step;
    index_ = 0;
  }

 private:
  std::vector<ActionId> actions_;
  StepIndex step_;
  size_t index_ = 0;
};

}  // namespace paro
