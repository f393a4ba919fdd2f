#include "run/step_progress.hpp"

#include <utility>

#include "run/collectives.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kCollectives{Track::kReductions, Track::kSyncs, Track::kGathers};

void add(SentBytes& sum, const SentBytes& one) {
  sum.intra += one.intra;
  sum.inter += one.inter;
}

}  // namespace

StepProgress::StepProgress(
    Shards& shards, const Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one)
    : shards_(shards),
      updater_(updater),
      agreement_(agreement),
      scheduler_(std::move(plan), packs_one),
      buffers_(scheduler_.plan()),
      packs_one_(packs_one) {}

void StepProgress::watch(const StepAction& step_action, Clock::time_point since) const {
  if (shards_.config.watch) {
    shards_.config.watch({step_action, since, Clock::now()});
  }
}

ho::Status StepProgress::break_with(const ho::Status& status, const StepAction& step_action) {
  return shards_.break_unless_ok(status, scheduler_.to_string(step_action));
}

ho::Status StepProgress::begin(const Action& action, ActionId id, Transfer& transfer) {
  if (action.act == Act::kAgree) {
    return agreement_.begin(updater_, scheduler_.micro_batches(), transfer);
  }
  if (action.act == Act::kGather) {
    return start_gather(shards_, buffers_, action, id, transfer);
  }
  const std::vector<ElementView> views = reduced_buffers(shards_, buffers_, action, id);
  if (action.from == Scope::kReplicated) {
    agreement_.not_finite().look_at_own(shards_, action, views, scheduler_.micro_batches());
  }
  return start_reduction(shards_, action, views, transfer);
}

ho::Status StepProgress::start(const StepAction& step_action) {
  const Action& action = scheduler_.action(step_action);
  const auto since = Clock::now();
  auto transfer =
      std::make_unique<Transfer>(shards_.ledger,
                                 shards_.transfer_options(),
                                 is_merged(action) ? buffers_.pack(step_action.action) : nullptr);
  const ho::Status status = begin(action, step_action.action, *transfer);
  // The agreement is the host's.
  const bool ends = shards_.in_order() && status.ok() && action.act != Act::kAgree;
  auto& running = ends ? on_stream_ : running_[static_cast<size_t>(action.track)];
  running.push_back({step_action, std::move(transfer), since});
  if (ends) {
    running.back().transfer->follow();
    end(step_action);
  }
  return status.ok() ? status : break_with(status, step_action);
}

void StepProgress::end(const StepAction& step_action) {
  const Action& action = scheduler_.action(step_action);
  if (action.content == Content::kGradients && action.phase == Phase::kBackward) {
    for (const uint32_t unit : units_of(action)) {
      const ElementView gradients = buffers_.output(shards_, action, step_action.action, unit);
      add_gradients(shards_, action, unit, gradients, scheduler_.plan().shape.micro_batches);
    }
  }
  scheduler_.end(step_action);
}

ho::Status StepProgress::account(Running& running) {
  if (const ho::Status status = running.transfer->finish(); !status.ok()) {
    return break_with(status, running.step_action);
  }
  add(sent_[static_cast<size_t>(scheduler_.action(running.step_action).phase)],
      running.transfer->sent());
  add(counted_.sent, running.transfer->sent());
  counted_.collective_ns += running.transfer->took_ns();
  return {};
}

ho::Status StepProgress::complete(Running& running) {
  HORING_TRY(account(running));
  end(running.step_action);
  watch(running.step_action, running.since);
  return {};
}

ho::Status StepProgress::complete_on_stream(bool all) {
  while (!on_stream_.empty() && (all || on_stream_.front().transfer->over())) {
    HORING_TRY(account(on_stream_.front()));
    watch(on_stream_.front().step_action, on_stream_.front().since);
    on_stream_.pop_front();
  }
  return {};
}

ho::Status StepProgress::complete_what_is_over(Track track) {
  auto& running = running_[static_cast<size_t>(track)];
  while (!running.empty() && running.front().transfer->over()) {
    HORING_TRY(complete(running.front()));
    running.pop_front();
  }
  return {};
}

ho::Status StepProgress::look_at_ends() {
  return shards_.break_unless_ok(ends_->look(), name(scheduler_.step()));
}

ho::Status StepProgress::wait_for(Transfer& transfer) {
  constexpr uint64_t kGlanceMs = 20;
  while (ends_->waits() && !transfer.over_within(kGlanceMs)) {
    HORING_TRY(look_at_ends());
  }
  return {};
}

ho::Status StepProgress::pump() {
  HORING_TRY(shards_.broken);
  HORING_TRY(look_at_ends());
  HORING_TRY(complete_on_stream(false));
  for (const Track track : kCollectives) {
    HORING_TRY(complete_what_is_over(track));
  }
  // What has ended by being begun lets others start: all that may, before the next hook.
  for (bool more = true; more;) {
    more = false;
    for (const Track track : kCollectives) {
      while (const auto step_action = scheduler_.start(track)) {
        HORING_TRY(start(*step_action));
        more = shards_.in_order();
      }
    }
  }
  return {};
}

ho::Status StepProgress::finish(StepAction step_action) {
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

ho::Status StepProgress::settle() {
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

ho::Status StepProgress::finish_before(const StepAction& computation) {
  while (const auto before = scheduler_.collective_before(computation)) {
    HORING_TRY(finish(*before));
  }
  return {};
}

ho::Status StepProgress::synchronize() {
  HORING_TRY(shards_.broken);
  const auto& actions = scheduler_.plan().actions;
  for (ActionId id; scheduler_.step() > StepIndex{} && id.at() < actions.size(); ++id) {
    if (actions[id.at()].phase == Phase::kSyncP) {
      HORING_TRY(finish({previous(scheduler_.step()), id}));
    }
  }
  return complete_on_stream(true);
}

void StepProgress::end_computation(Clock::time_point since) {
  const StepAction step_action = scheduler_.computation();
  scheduler_.end_computation();
  watch(step_action, since);
}

void StepProgress::go_on_from(StepIndex step) {
  scheduler_.restart(step);
  agreement_.begin_step();
  counted_ = {};
  step_since_ = Clock::now();
}

void StepProgress::begin_step_anew() {
  const StepReport counted = counted_;
  const auto since = step_since_;
  go_on_from(scheduler_.step());
  counted_ = counted;
  step_since_ = since;
}

StepReport StepProgress::end_step(Clock::time_point end) {
  StepReport report = std::exchange(counted_, {});
  report.step_ns = ns_between(std::exchange(step_since_, end), end);
  report.micro_batches = scheduler_.micro_batches();
  scheduler_.end_step();
  report.step = scheduler_.step().value;
  agreement_.begin_step();
  return report;
}

void StepProgress::follow(StepPlan plan) {
  const StepIndex step = scheduler_.step();
  scheduler_ = Scheduler(std::move(plan), packs_one_);
  scheduler_.restart(step);
  buffers_.follow(scheduler_.plan());
  begin_step_anew();
}

void StepProgress::drop_all() {
  for (auto& track : running_) {
    track.clear();
  }
  on_stream_.clear();
  ends_.reset();  // before its communicator
}

void StepProgress::use_ends(ho_comm* all_ranks) {
  ends_ = std::make_unique<StepEnds>(all_ranks, shards_.config.timeout_ms);
}

}  // namespace paro
