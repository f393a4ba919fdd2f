#include "run/step_progress.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "run/collectives.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;

void add(SentBytes& sum, const SentBytes& one) {
  sum.intra += one.intra;
  sum.inter += one.inter;
}

}  // namespace

StepProgress::StepProgress(
    Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one)
    : shards_(shards),
      updater_(updater),
      agreement_(agreement),
      scheduler_(std::move(plan), packs_one),
      buffers_(scheduler_.plan()),
      packs_one_(packs_one) {}

ho::Status StepProgress::allocate(const StateShape& shape) {
  return buffers_.allocate(shards_, shape);
}

void StepProgress::watch(const StepAction& step_action, Clock::time_point since) const {
  if (shards_.config.watch) {
    shards_.config.watch({step_action, since, Clock::now()});
  }
}

ho::Status StepProgress::break_with(const ho::Status& status, const StepAction& step_action) {
  return shards_.break_unless_ok(status, scheduler_.to_string(step_action));
}

StepAction StepProgress::agreement_action() const {
  const auto& actions = scheduler_.plan().actions;
  const auto agree = std::find_if(
      actions.begin(), actions.end(), [](const Action& a) { return a.act == Act::kAgree; });
  return {scheduler_.step(), ActionId(static_cast<size_t>(agree - actions.begin()))};
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

ho::Status StepProgress::start(const StepAction& step_action, RunningOfTracks& running) {
  const Action& action = scheduler_.action(step_action);
  const auto since = Clock::now();
  auto transfer =
      std::make_unique<Transfer>(shards_.ledger,
                                 shards_.transfer_options(),
                                 action.track,
                                 is_merged(action) ? buffers_.pack(step_action.action) : nullptr);
  const ho::Status status = begin(action, step_action.action, *transfer);
  running[static_cast<size_t>(action.track)].push_back({step_action, std::move(transfer), since});
  return status.ok() ? status : break_with(status, step_action);
}

void StepProgress::take_results(const StepAction& step_action) {
  const Action& action = scheduler_.action(step_action);
  if (action.content != Content::kGradients || action.phase != Phase::kBackward) {
    return;
  }
  for (const uint32_t unit : units_of(action)) {
    const ElementView gradients = buffers_.output(shards_, action, step_action.action, unit);
    add_gradients(shards_, action, unit, gradients, scheduler_.plan().shape.micro_batches);
  }
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

ho::Status StepProgress::look_at_ends() {
  return shards_.break_unless_ok(ends_->look(), name(scheduler_.step()));
}

// Of ranks that end the step otherwise the copy would never come: they are looked at meanwhile. So
// is what has failed: an abort lets the stream go on, unless something else holds it.
ho::Result<bool> StepProgress::wait_for_copy(uint64_t timeout_ms) {
  constexpr uint64_t kGlanceMs = 20;
  const uint64_t most = std::min(timeout_ms, uint64_t{1} << 40U);
  const Domains& domains = *shards_.domains;
  const bool may_fail = domains.ended() != nullptr;
  const Operations& operations = shards_.operations(Track::kReductions);
  const auto since = Clock::now();
  std::optional<uint64_t> failed_ms;
  for (;;) {
    HORING_TRY(ends_->look());
    const uint64_t gone = ns_between(since, Clock::now()) / 1'000'000;
    if (const ho::Status cause = domains.status(); !cause.ok()) {
      failed_ms = failed_ms.value_or(gone);
      HORING_TRY(gone - *failed_ms < shards_.wait_after_failure_ms() ? ho::Status() : cause);
    }
    const uint64_t left = most == 0 ? 0 : std::max(most, gone + 1) - gone;
    // Without an end: by then collectives have met their deadlines, and the operations have theirs.
    const bool in_time = failed_ms || left > 0 || gone < 3 * domains.timeout_ms();
    const bool glances = (ends_->waits() || may_fail) && in_time && (left == 0 || left > kGlanceMs);
    HORING_ASSIGN(const bool there, operations.arrived(glances ? kGlanceMs : left));
    if (there || !glances) {
      return there;
    }
  }
}

ho::Result<bool> StepProgress::know_outcome(uint64_t timeout_ms) {
  const std::string* const waited = agreement_.waits_for();
  if (waited == nullptr) {
    return true;
  }
  const auto since = Clock::now();
  const ho::Result<bool> arrived = wait_for_copy(timeout_ms);
  counted_.wait_ns += ns_between(since, Clock::now());
  HORING_TRY(shards_.break_unless_ok(arrived.status(), *waited));
  if (!*arrived) {
    return false;
  }
  // Else what is on a stream may not have been done.
  HORING_TRY(shards_.break_unless_ok(shards_.domains->status(), *waited));
  HORING_TRY(agreement_.take());
  return true;
}

ho::Result<bool> StepProgress::know_last_step(uint64_t timeout_ms) {
  if (agreement_.waits_for() == nullptr) {
    return true;
  }
  HORING_ASSIGN(const bool known, know_outcome(timeout_ms));
  if (known) {
    updater_.end_step(agreement_.outcome());
  }
  return known;
}

ho::Status StepProgress::end_last_step() {
  HORING_TRY(know_last_step().status());
  return agreement_.tell_why();
}

void StepProgress::go_on_from(StepIndex step) {
  scheduler_.restart(step);
  restart();
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

ho::Status StepProgress::end_after(uint32_t micro_batches) {
  scheduler_.end_after(micro_batches);
  return {};
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

ho::Status StepProgress::follow(StepPlan plan) {
  const StepIndex step = scheduler_.step();
  scheduler_ = Scheduler(std::move(plan), packs_one_);
  scheduler_.restart(step);
  buffers_.follow(scheduler_.plan());
  HORING_TRY(take_plan());
  begin_step_anew();
  return {};
}

void StepProgress::drop_all() {
  drop_running();
  ends_.reset();  // before its communicator
}

void StepProgress::use_ends(ho_comm* all_ranks) {
  ends_ = std::make_unique<StepEnds>(all_ranks, shards_.config.timeout_ms);
}

}  // namespace paro
