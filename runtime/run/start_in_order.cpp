#include "run/start_in_order.hpp"

#include <utility>

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

StartInOrder::StartInOrder(
    Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one)
    : StepProgress(shards, updater, agreement, std::move(plan), packs_one) {}

ho::Status StartInOrder::allocate(const StateShape& shape) {
  HORING_TRY(StepProgress::allocate(shape));
  HORING_TRY(make_marks(joined_, kTrackCount));
  HORING_TRY(make_marks(last_, 1));
  return take_plan();
}

ho::Status StartInOrder::make_marks(Marks& marks, size_t count) {
  while (marks.size() < count) {
    HORING_ASSIGN(marks.emplace_back(), shards_.ledger.memory().make_mark());
  }
  return {};
}

ho::Status StartInOrder::take_plan() {
  const size_t actions = scheduler_.plan().actions.size();
  streams_ = streams_of(scheduler_.plan());
  positions_.resize(actions);
  for (size_t position = 0; position < streams_.launches.size(); ++position) {
    positions_[streams_.launches[position].action.at()] = position;
  }
  left_.assign(actions, false);
  recorded_.assign(streams_.event_count, false);
  return make_marks(events_, streams_.event_count);
}

void StartInOrder::restart() {
  next_ = 0;
  joins_ = true;
}

// An abort lets the streams go on.
void StartInOrder::drop_running() {
  for (auto& track : running_) {
    track.clear();
  }
  left_.assign(left_.size(), false);
  recorded_.assign(recorded_.size(), false);
  join();
}

ho::Status StartInOrder::come_after_others(const StepAction& step_action) {
  const ActionId id = step_action.action;
  if (std::exchange(joins_, false)) {
    join();
  }
  const Operations& operations = shards_.operations(action(id).track);
  for (const ActionId earlier : streams_.actions[id.at()].waits) {
    const uint32_t event = *streams_.actions[earlier.at()].event;
    if (recorded_[event]) {
      operations.come_after(*events_[event]);
    }
  }
  const ho::Status status = operations.status();
  return status.ok() ? status : break_with(status, step_action);
}

void StartInOrder::record(ActionId id) {
  if (const auto event = streams_.actions[id.at()].event) {
    shards_.operations(action(id).track).set(*events_[*event]);
    recorded_[*event] = true;
  }
}

void StartInOrder::join() {
  for (size_t track = 0; track < joined_.size(); ++track) {
    shards_.ledger.operations(track).set(*joined_[track]);
  }
  for (size_t track = 0; track < joined_.size(); ++track) {
    for (size_t other = 0; other < joined_.size(); ++other) {
      if (other != track) {
        shards_.ledger.operations(track).come_after(*joined_[other]);
      }
    }
  }
}

bool StartInOrder::is_left_out(const Action& action) const {
  return action.micro_batch >= scheduler_.micro_batches() &&
         (action.phase == Phase::kForward || action.phase == Phase::kBackward);
}

ho::Status StartInOrder::launch(const Launch& launch) {
  const ActionId id = launch.action;
  if (is_left_out(action(id)) || (launch.previous && !left_[id.at()])) {
    return {};
  }
  left_[id.at()] = false;
  const StepIndex step = scheduler_.step();
  const StepAction step_action{launch.previous ? previous(step) : step, id};
  HORING_TRY(start_in_turn(step_action));
  record(id);
  return {};
}

ho::Status StartInOrder::start_in_turn(const StepAction& step_action) {
  const Track track = action(step_action.action).track;
  const bool one_at_a_time = !shards_.domains->begin_in_order();
  HORING_TRY(come_after_others(step_action));
  if (one_at_a_time) {
    shards_.operations(track).come_after(*last_.front());
  }
  HORING_TRY(start(step_action, running_));
  running_[static_cast<size_t>(track)].back().transfer->follow();
  take_results(step_action);
  if (one_at_a_time) {
    shards_.operations(track).set(*last_.front());
  }
  return {};
}

ho::Status StartInOrder::launch_next() {
  HORING_TRY(shards_.broken);
  for (; next_ < streams_.launches.size(); ++next_) {
    const Launch& one = streams_.launches[next_];
    const Action& wanted = action(one.action);
    const bool is_others = wanted.track == Track::kCompute || wanted.act == Act::kAgree;
    if (is_others && !is_left_out(wanted)) {
      return {};
    }
    if (!is_others) {
      HORING_TRY(launch(one));
    }
  }
  next_ = 0;
  for (const Launch& one : streams_.launches) {
    left_[one.action.at()] = one.previous;
  }
  return {};
}

// What is updated next must be in order though a collective has failed: all units are updated. What
// updates come after is launched by the agreement, which is behind the last backward pass.
ho::Status StartInOrder::go_on_after(ActionId id) {
  record(id);
  next_ = positions_[id.at()] + 1;
  ho::Status launched = launch_next();
  const StepAction computation = scheduler_.computation();
  if (action(computation.action).act == Act::kUpdate && action(id).act != Act::kBackward) {
    const ho::Status ordered = come_after_others(computation);
    return launched.ok() ? ordered : launched;
  }
  return launched;
}

ho::Status StartInOrder::complete(bool all) {
  for (auto& running : running_) {
    while (!running.empty() && (all || running.front().transfer->over())) {
      HORING_TRY(account(running.front()));
      watch(running.front().step_action, running.front().since);
      running.pop_front();
    }
  }
  return {};
}

ho::Status StartInOrder::poll() {
  HORING_TRY(shards_.broken);
  HORING_TRY(look_at_ends());
  return complete(false);
}

ho::Status StartInOrder::begin_computation() {
  HORING_TRY(poll());
  HORING_TRY(launch_next());
  return come_after_others(scheduler_.computation());
}

ho::Status StartInOrder::end_computation(Clock::time_point since) {
  const StepAction step_action = scheduler_.computation();
  scheduler_.end_computation();
  watch(step_action, since);
  const ho::Status polled = poll();
  const ho::Status launched = go_on_after(step_action.action);
  return polled.ok() ? launched : polled;
}

ho::Status StartInOrder::agree() {
  HORING_TRY(poll());
  HORING_TRY(launch_next());
  return start_in_turn(agreement_action());
}

ho::Status StartInOrder::end_agreement() {
  return go_on_after(agreement_action().action);
}

ho::Status StartInOrder::settle() {
  HORING_TRY(shards_.broken);
  join();
  joins_ = true;
  return {};
}

// Reductions may be launched behind gathers of micro-batches that do not come.
ho::Status StartInOrder::end_after(uint32_t micro_batches) {
  HORING_TRY(StepProgress::end_after(micro_batches));
  HORING_TRY(launch_next());
  return settle();
}

ho::Status StartInOrder::synchronize() {
  HORING_TRY(shards_.broken);
  HORING_TRY(end_last_step());
  updater_.follow_scale();
  for (const Launch& one : streams_.launches) {
    if (one.previous) {
      HORING_TRY(launch(one));
    }
  }
  HORING_TRY(settle());
  return complete(true);
}

}  // namespace paro
