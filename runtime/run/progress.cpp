// What is under way: collectives start when they may, complete in the order of their track, and
// are waited for where something needs them.
#include <utility>

#include "run/collectives.hpp"
#include "run/step_runner.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kCollectives{Track::kReductions, Track::kSyncs, Track::kGathers};

void add(SentBytes& sum, const SentBytes& one) {
  sum.intra += one.intra;
  sum.inter += one.inter;
}

}  // namespace

void StepRunner::watch(const StepAction& step_action, Clock::time_point since) const {
  if (config().watch) {
    config().watch({step_action, since, Clock::now()});
  }
}

ho::Status StepRunner::break_with(const ho::Status& status, const StepAction& step_action) {
  return shards_.break_unless_ok(status, scheduler_.to_string(step_action));
}

ho::Status StepRunner::start_agree(Transfer& transfer) {
  const double factor = updater_.averaging_factor(shards_, scheduler_.micro_batches());
  const Norm norm = updater_.norm(shards_, factor, not_finite_);
  agreed_ = StepSums(
      norm.squared, norm.not_finite, learning_rate(config()), signals_, loads_.any(), discards_);
  return transfer.all_reduce(shards_.domains->over_world(), agreed_.data(), StepSums::kCount);
}

ho::Status StepRunner::start(const StepAction& step_action) {
  const Action& action = scheduler_.action(step_action);
  const ActionId id = step_action.action;
  const auto since = Clock::now();
  auto transfer = std::make_unique<Transfer>(
      shards_.ledger, shards_.transfer_options(), is_merged(action) ? buffers_.pack(id) : nullptr);
  ho::Status status;
  if (action.act == Act::kAgree) {
    status = start_agree(*transfer);
  } else if (action.act == Act::kGather) {
    status = start_gather(shards_, buffers_, action, id, *transfer);
  } else {
    const std::vector<ElementView> buffers_of_units =
        reduced_buffers(shards_, buffers_, action, id);
    if (action.from == Scope::kReplicated) {
      not_finite_.look_at_own(shards_, action, buffers_of_units, scheduler_.micro_batches());
    }
    status = start_reduction(shards_, action, buffers_of_units, *transfer);
  }
  running_[static_cast<size_t>(action.track)].push_back({step_action, std::move(transfer), since});
  return status.ok() ? status : break_with(status, step_action);
}

ho::Status StepRunner::complete(Running& running) {
  const Action& action = scheduler_.action(running.step_action);
  if (const ho::Status status = running.transfer->finish(); !status.ok()) {
    return break_with(status, running.step_action);
  }
  add(sent_[static_cast<size_t>(action.phase)], running.transfer->sent());
  add(counted_.sent, running.transfer->sent());
  counted_.collective_ns += running.transfer->took_ns();
  if (action.content == Content::kGradients && action.phase == Phase::kBackward) {
    for (const uint32_t unit : units_of(action)) {
      const ElementView gradients =
          buffers_.output(shards_, action, running.step_action.action, unit);
      add_gradients(shards_, action, unit, gradients, plan().shape.micro_batches);
    }
  }
  scheduler_.end(running.step_action);
  watch(running.step_action, running.since);
  return {};
}

ho::Status StepRunner::complete_what_is_over(Track track) {
  auto& running = running_[static_cast<size_t>(track)];
  while (!running.empty() && running.front().transfer->over()) {
    HORING_TRY(complete(running.front()));
    running.pop_front();
  }
  return {};
}

ho::Status StepRunner::look_at_ends() {
  return shards_.break_unless_ok(ends_->look(), name(scheduler_.step()));
}

ho::Status StepRunner::wait_for(Transfer& transfer) {
  constexpr uint64_t kGlanceMs = 20;
  while (ends_->waits() && !transfer.over_within(kGlanceMs)) {
    HORING_TRY(look_at_ends());
  }
  return {};
}

ho::Status StepRunner::pump() {
  HORING_TRY(broken());
  HORING_TRY(look_at_ends());
  for (const Track track : kCollectives) {
    HORING_TRY(complete_what_is_over(track));
  }
  for (const Track track : kCollectives) {
    while (const auto step_action = scheduler_.start(track)) {
      HORING_TRY(start(*step_action));
    }
  }
  return {};
}

ho::Status StepRunner::finish(StepAction step_action) {
  const Track track = scheduler_.action(step_action).track;
  auto& running = running_[static_cast<size_t>(track)];
  HORING_TRY(pump());
  while (!scheduler_.ended(step_action)) {
    if (!running.empty()) {
      const auto start = Clock::now();
      HORING_TRY(wait_for(*running.front().transfer));
      HORING_TRY(complete(running.front()));
      counted_.wait_ns += ns_between(start, Clock::now());
      running.pop_front();
      HORING_TRY(pump());
      continue;
    }
    // Nothing runs on its track: the next action there waits for another track.
    const StepAction blocked = *scheduler_.next(track);
    while (const auto before = scheduler_.collective_before(blocked)) {
      HORING_TRY(finish(*before));
    }
    HORING_TRY(pump());
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

ho::Status StepRunner::settle() {
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

}  // namespace paro
