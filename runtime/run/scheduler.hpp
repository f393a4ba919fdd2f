// Which actions of a step plan may start, and which have ended. Bookkeeping alone: it knows no
// communicator and no clock, and never blocks.
//
// Each track's actions start in the order of the plan, step after step. The framework does the
// computations, one after the other. A collective may start when what it comes after has ended and,
// unless it belongs to a step that is over, a hook of its step was called.
//
// Owner: StepRunner, on its thread. Step actions that are passed are some that it gave.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "run/step_cursor.hpp"
#include "step/step_plan.hpp"

namespace paro {

class Scheduler {
 public:
  // `packs_one`: of collectives that reorder a unit for its message one at a time on each track.
  // So much memory is predicted; merged ones have their own.
  explicit Scheduler(StepPlan plan, bool packs_one = false);

  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  [[nodiscard]] const Action& action(const StepAction& step_action) const {
    return plan_.actions[step_action.action.at()];
  }
  // "step 3 of IIG, all_gather parameters I->N intra, unit 3 (head), forward of micro-batch 1"
  [[nodiscard]] std::string to_string(const StepAction& step_action) const;

  // The present step: as many have ended.
  [[nodiscard]] StepIndex step() const { return step_; }
  // Since its first hook.
  [[nodiscard]] bool in_step() const { return in_step_; }
  void begin_step() { in_step_ = true; }
  [[nodiscard]] uint32_t micro_batches() const { return micro_batches_; }
  // It has so many micro-batches only: actions of the others count as ended.
  void end_after(uint32_t micro_batches);
  // From now on the agreement that ends it may start: it takes what the framework may change.
  void let_agree() { may_agree_ = true; }
  void end_step();
  // The next is `step`, from its beginning. Nothing is under way.
  void restart(StepIndex step);

  // The next computation, and how many of the present step are over.
  [[nodiscard]] StepAction computation() const { return cursor(Track::kCompute).step_action(); }
  [[nodiscard]] size_t computations_over() const;
  void end_computation();

  // What starts next on a track; nothing where no step has any.
  [[nodiscard]] std::optional<StepAction> next(Track track) const;
  // The same if it may start: it is under way from now on.
  [[nodiscard]] std::optional<StepAction> start(Track track);
  // Of what is under way.
  void end(const StepAction& step_action);
  [[nodiscard]] bool ended(const StepAction& step_action) const {
    return times_ended_[step_action.action.at()] > step_action.step.value;
  }
  // The first that it comes after and that has not ended.
  [[nodiscard]] std::optional<StepAction> collective_before(const StepAction& step_action) const;
  [[nodiscard]] std::optional<StepAction> computation_before(const StepAction& step_action) const;

 private:
  [[nodiscard]] const StepCursor& cursor(Track track) const {
    return cursors_[static_cast<size_t>(track)];
  }
  template <typename Wanted>
  [[nodiscard]] std::optional<StepAction> first_before(const StepAction& step_action,
                                                       const Wanted& wanted) const;
  [[nodiscard]] bool may_start(const StepAction& step_action) const;
  // Past those of micro-batches that do not come.
  void leave_out(StepCursor& cursor);

  StepPlan plan_;
  bool packs_one_;
  std::array<StepCursor, kTrackCount> cursors_;
  std::array<uint32_t, kTrackCount> under_way_{};
  std::vector<uint64_t> times_ended_;  // by action
  StepIndex step_;
  uint32_t micro_batches_;
  bool in_step_ = false;
  bool may_agree_ = false;
};

}  // namespace paro
