#include "run/start_when_ready.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kCollectives{Track::kReductions, Track::kSyncs, Track::kGathers};

}  // namespace

ho::Status StartWhenReady::complete(Running& running) {
  HORING_TRY(account(running));
  take_results(running.step_action);
  scheduler_.end(running.step_action);
  watch(running.step_action, running.since);
  return {};
}

ho::Status StartWhenReady::complete_what_is_over(Track track) {
  auto& running = running_[static_cast<size_t>(track)];
  while (!running.empty() && running.front().transfer->over()) {
    HORING_TRY(complete(running.front()));
    running.pop_front();
  }
  return {};
}

ho::Status StartWhenReady::wait_for(Transfer& transfer) {
  constexpr uint64_t kGlanceMs = 20;
  while (ends_->waits() && !transfer.over_within(kGlanceMs)) {
    HORING_TRY(look_at_ends());
  }
  return {};
}

ho::Status StartWhenReady::poll() {
  HORING_TRY(shards_.broken);
  HORING_TRY(look_at_ends());
  for (const Track track : kCollectives) {
    HORING_TRY(complete_what_is_over(track));
  }
  for (const Track track : kCollectives) {
    while (const auto step_action = scheduler_.start(track)) {
      HORING_TRY(start(*step_action, running_));
    }
  }
  return {};
}

ho::Status StartWhenReady::finish(StepAction step_action) {
  const Track track = scheduler_.action(step_action).track;
  auto& running = running_[static_cast<size_t>(track)];
  HORING_TRY(poll());
  while (!scheduler_.ended(step_action)) {
    if (!running.empty()) {
      const auto start = Clock::now();
      HORING_TRY(wait_for(*running.front().transfer));
      HORING_TRY(complete(running.front()));
      counted_.wait_ns += ns_between(start, Clock::now());
      running.pop_front();
      HORING_TRY(poll());
      continue;
    }
    // Nothing runs on its track: the next action there waits for another track.
    const StepAction blocked = *scheduler_.next(track);
    while (const auto before = scheduler_.collective_before(blocked)) {
      HORING_TRY(finish(*before));
    }
    HORING_TRY(poll());
    if (running.empty() && !scheduler_.ended(step_action)) {
      const auto before = scheduler_.computation_before(blocked);
      return break_with({ho::StatusCode::kInternal,
                         "cannot start; it waits for a computation that is not over" +
                             (before ? ": " + scheduler_.to_string(*before) : "")},
                        blocked);
    }
  }
  return {};
}

ho::Status StartWhenReady::begin_computation() {
  HORING_TRY(poll());
  const StepAction computation = scheduler_.computation();
  while (const auto before = scheduler_.collective_before(computation)) {
    HORING_TRY(finish(*before));
  }
  return {};
}

ho::Status StartWhenReady::end_computation(Clock::time_point since) {
  const StepAction step_action = scheduler_.computation();
  scheduler_.end_computation();
  watch(step_action, since);
  return poll();
}

ho::Status StartWhenReady::agree() {
  scheduler_.let_agree();
  HORING_TRY(finish(agreement_action()));
  return shards_.break_unless_ok(ends_->finish(), name(scheduler_.step()));
}

ho::Status StartWhenReady::settle() {
  for (const Track track : {Track::kGathers, Track::kReductions}) {
    for (auto next = scheduler_.next(track); next && next->step == scheduler_.step();
         next = scheduler_.next(track)) {
      if (scheduler_.action(*next).act == Act::kAgree || scheduler_.computation_before(*next)) {
        break;
      }
      HORING_TRY(finish(*next));
    }
    auto& running = running_[static_cast<size_t>(track)];
    while (!running.empty()) {
      HORING_TRY(finish(running.back().step_action));
    }
  }
  return {};
}

ho::Status StartWhenReady::synchronize() {
  HORING_TRY(shards_.broken);
  const auto& actions = scheduler_.plan().actions;
  for (ActionId id; scheduler_.step() > StepIndex{} && id.at() < actions.size(); ++id) {
    if (actions[id.at()].phase == Phase::kSyncP) {
      HORING_TRY(finish({previous(scheduler_.step()), id}));
    }
  }
  return {};
}

void StartWhenReady::drop_running() {
  for (auto& track : running_) {
    track.clear();
  }
}

}  // namespace paro
