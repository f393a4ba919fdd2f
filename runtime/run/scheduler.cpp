#include "run/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace paro {

Scheduler::Scheduler(StepPlan plan, bool packs_one)
    : plan_(std::move(plan)),
      packs_one_(packs_one),
      times_ended_(plan_.actions.size(), 0),
      micro_batches_(plan_.shape.micro_batches) {
  for (ActionId id; id.at() < plan_.actions.size(); ++id) {
    cursors_[static_cast<size_t>(plan_.actions[id.at()].track)].add(id);
  }
}

std::string Scheduler::to_string(const StepAction& step_action) const {
  return name(step_action.step) + " of " + letters(plan_.shape.strategy) + ", " +
         paro::to_string(plan_, action(step_action));
}

void Scheduler::leave_out(StepCursor& cursor) {
  for (; !cursor.empty() && cursor.step_action().step == step_; cursor.advance()) {
    const StepAction step_action = cursor.step_action();
    const Phase phase = action(step_action).phase;
    if (action(step_action).micro_batch < micro_batches_ ||
        (phase != Phase::kForward && phase != Phase::kBackward)) {
      return;
    }
    ++times_ended_[step_action.action.at()];
  }
}

void Scheduler::end_after(uint32_t micro_batches) {
  micro_batches_ = micro_batches;
  leave_out(cursors_[static_cast<size_t>(Track::kCompute)]);
}

void Scheduler::end_step() {
  step_ = paro::next(step_);
  micro_batches_ = plan_.shape.micro_batches;
  in_step_ = false;
}

void Scheduler::restart(StepIndex step) {
  step_ = step;
  micro_batches_ = plan_.shape.micro_batches;
  in_step_ = false;
  may_agree_ = false;
  times_ended_.assign(times_ended_.size(), step.value);
  under_way_.fill(0);
  for (StepCursor& cursor : cursors_) {
    cursor.go_to(step);
  }
}

size_t Scheduler::computations_over() const {
  const StepCursor& computations = cursor(Track::kCompute);
  return computations.step_action().step == step_ ? computations.index() : computations.size();
}

void Scheduler::end_computation() {
  StepCursor& computations = cursors_[static_cast<size_t>(Track::kCompute)];
  ++times_ended_[computations.step_action().action.at()];
  computations.advance();
}

std::optional<StepAction> Scheduler::next(Track track) const {
  return cursor(track).empty() ? std::nullopt : std::optional(cursor(track).step_action());
}

std::optional<StepAction> Scheduler::start(Track track) {
  StepCursor& cursor = cursors_[static_cast<size_t>(track)];
  leave_out(cursor);
  if (cursor.empty() || !may_start(cursor.step_action())) {
    return std::nullopt;
  }
  const StepAction step_action = cursor.step_action();
  cursor.advance();
  ++under_way_[static_cast<size_t>(track)];
  return step_action;
}

void Scheduler::end(const StepAction& step_action) {
  ++times_ended_[step_action.action.at()];
  --under_way_[static_cast<size_t>(action(step_action).track)];
  may_agree_ = may_agree_ && action(step_action).act != Act::kAgree;
}

bool Scheduler::may_start(const StepAction& step_action) const {
  const Action& wanted = action(step_action);
  // Gathers of the next step wait for what the framework does before it: load(), a checkpoint.
  const bool early = step_action.step > step_ || (step_action.step == step_ && !in_step_);
  const bool must_pack_alone = packs_one_ && moves_parts_of_world(wanted) && !is_merged(wanted);
  return !early && (wanted.act != Act::kAgree || may_agree_) &&
         (!must_pack_alone || under_way_[static_cast<size_t>(wanted.track)] == 0) &&
         !first_before(step_action, [](const Action& /*any*/) { return true; });
}

template <typename Wanted>
std::optional<StepAction> Scheduler::first_before(const StepAction& step_action,
                                                  const Wanted& wanted) const {
  const auto first = [&](const std::vector<ActionId>& ids,
                         StepIndex step) -> std::optional<StepAction> {
    const auto found = std::find_if(ids.begin(), ids.end(), [&](ActionId id) {
      return !ended({step, id}) && wanted(plan_.actions[id.at()]);
    });
    return found == ids.end() ? std::nullopt : std::optional(StepAction{step, *found});
  };
  const auto found = first(action(step_action).after, step_action.step);
  return found || step_action.step == StepIndex{}
             ? found
             : first(action(step_action).after_previous, previous(step_action.step));
}

std::optional<StepAction> Scheduler::collective_before(const StepAction& step_action) const {
  return first_before(step_action, [](const Action& of) { return of.track != Track::kCompute; });
}

std::optional<StepAction> Scheduler::computation_before(const StepAction& step_action) const {
  return first_before(step_action, [](const Action& of) { return of.track == Track::kCompute; });
}

}  // namespace paro
