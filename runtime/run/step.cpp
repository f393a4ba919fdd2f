// The end of a step: the ranks agree on it, then each updates its shards. And steps of fewer
// micro-batches, and of none.
//
// A plan has a fixed number of micro-batches. Where a step ends before, what the others would have
// gathered ahead by then is still gathered, since some ranks may have begun with it: which gathers
// those are follows from the computations that are over, which all ranks have in common. Ranks that
// end a step differently find out meanwhile (step_ends.hpp). Then the actions of the micro-batches
// that do not come count as ended, and the step goes on to its sync-g. After a step's last
// micro-batch the agreement that ends it tells whether all ranks drop it instead.
#include <utility>

#include "run/agreement.hpp"
#include "run/step_runner.hpp"

namespace paro {

ho::Status StepRunner::decide(bool discards) {
  agreement_.set_discards(discards);
  HORING_TRY(progress_->agree());
  agreement_.decide(updater_, scheduler().step(), scheduler().micro_batches());
  return {};
}

ho::Status StepRunner::update_all(const StepOutcome* known) {
  // Of what starts meanwhile. The ranks have agreed on this step: should a connection break now,
  // all units are updated yet, so that the ranks can rejoin.
  ho::Status sent = progress_->end_agreement();
  for (StepAction step_action = scheduler().computation(); step_action.step == scheduler().step();
       step_action = scheduler().computation()) {
    const uint32_t unit = scheduler().action(step_action).unit;
    const auto since = std::chrono::steady_clock::now();
    if (known == nullptr || known->applied) {
      const double factor = known == nullptr ? 0 : known->factor;
      if (const ho::Status status = updater_.update(shards_, unit, factor); !status.ok()) {
        return shards_.break_unless_ok(status, scheduler().to_string(step_action));
      }
    }
    shards_.units[unit].sums.zero();
    const ho::Status status = progress_->end_computation(since);
    sent = sent.ok() ? status : sent;
  }
  if (known != nullptr) {
    updater_.end_step(*known);
  }
  updater_.follow_scale();
  return sent;
}

// What is given to a device is decided there. Only where this rank was given initial values does it
// wait: nothing may be updated before the ranks have compared them.
ho::Result<StepReport> StepRunner::step() {
  HORING_TRY(broken());
  const auto start = std::chrono::steady_clock::now();
  const auto waited = progress_->counted().wait_ns;
  if (hooks_.computing() ||
      scheduler().computations_over() != 2 * config().units.size() * plan().shape.micro_batches) {
    HORING_TRY(hooks_.expect(Act::kUpdate, 0, true));
    return ho::Status(ho::StatusCode::kInvalidArgument, "step() before any micro-batch");
  }
  HORING_TRY(progress_->end_last_step());
  const StepOutcome before = agreement_.outcome();
  const double scale = updater_.scale().value();
  const bool waits = !config().on_device || agreement_.loads().any();
  HORING_TRY(decide(false));
  if (waits) {
    HORING_TRY(progress_->know_outcome().status());
    HORING_TRY(agreement_.tell_why());
  }
  const auto updating = std::chrono::steady_clock::now();
  HORING_TRY(update_all(waits ? &agreement_.outcome() : nullptr));
  const auto end = std::chrono::steady_clock::now();
  StepReport report = progress_->end_step(end);
  report.update_ns = ns_between(updating, end);
  report.hook_ns += ns_between(start, updating) - (report.wait_ns - waited);
  report.loss_scale = scale;
  report.outcome = config().on_device ? before : agreement_.outcome();
  if (config().on_device) {
    // The step that was under way then has told the same.
    signalled_ = before.signalled && !signalled_;
    report.outcome.signalled = signalled_;
  }
  last_ = report;
  if (config().drift_interval > 0 && report.step % config().drift_interval == 0) {
    HORING_TRY(between_steps_.check_drift());
  }
  return report;
}

ho::Result<std::optional<StepReport>> StepRunner::flush(uint64_t timeout_ms) {
  HORING_TRY(broken());
  HORING_ASSIGN(const bool known, progress_->know_last_step(timeout_ms));
  if (!known) {
    return std::optional<StepReport>();
  }
  last_.outcome = agreement_.outcome();
  return std::optional(last_);
}

ho::Result<uint32_t> StepRunner::micro_batches_over(const char* what) const {
  HORING_TRY(broken());
  const uint64_t over = scheduler().computations_over();
  const uint64_t each = 2 * config().units.size();
  if (hooks_.computing() || over % each != 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument,
                      std::string(what) + " in the middle of micro-batch " +
                          std::to_string(over / each) + ": call it after its after_backward(0)");
  }
  return static_cast<uint32_t>(over / each);
}

// The others are told first: some may go on, and find out while they wait for this rank.
ho::Status StepRunner::agree_on_end(StepEnds::Next end, uint32_t micro_batches) {
  const std::string step = step_name();
  HORING_TRY(shards_.break_unless_ok(progress_->ends().tell(micro_batches, end), step));
  HORING_TRY(progress_->settle());
  return shards_.break_unless_ok(progress_->ends().finish(), step);
}

ho::Result<StepReport> StepRunner::step_early() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("step_early"));
  if (over == 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument, "step_early before any micro-batch");
  }
  if (over == plan().shape.micro_batches) {
    return step();
  }
  HORING_TRY(agree_on_end(StepEnds::Next::kStepEarly, over));
  HORING_TRY(progress_->end_after(over));
  for (UnitState& unit : shards_.units) {
    unit.sums.round_to(shards_.ledger.operations(), sent_dtype(config()));
  }
  return step();
}

ho::Status StepRunner::discard() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("discard"));
  if (over == 0) {
    return {};  // the others cannot see it
  }
  if (over < plan().shape.micro_batches) {
    HORING_TRY(agree_on_end(StepEnds::Next::kDiscard, over));
  } else {
    HORING_TRY(progress_->end_last_step());
    HORING_TRY(decide(true));
    HORING_TRY(progress_->know_outcome().status());
  }
  HORING_TRY(progress_->settle());
  for (UnitState& unit : shards_.units) {
    unit.sums.zero();
  }
  progress_->begin_step_anew();
  hooks_.forget();
  return {};
}

ho::Status StepRunner::set_micro_batches(uint32_t count) {
  HORING_TRY(between_steps_.may("set_micro_batches"));
  HORING_TRY(progress_->synchronize());
  // Before this rank's own number is looked at: the others may have given a right one.
  HORING_TRY(agreement_.agree_on_count(
      count, "set_micro_batches after step " + std::to_string(scheduler().step().value)));
  if (count == 0 || count > config().micro_batches) {
    return {ho::StatusCode::kInvalidArgument,
            "set_micro_batches: " + std::to_string(count) + "; takes 1 to " +
                std::to_string(config().micro_batches) + ", what the runner was made for"};
  }
  return use_micro_batches(count);
}

ho::Status StepRunner::use_micro_batches(uint32_t count) {
  StepShape shape = plan().shape;
  if (count == shape.micro_batches) {
    return {};
  }
  shape.micro_batches = count;
  HORING_ASSIGN(StepPlan plan, build_step_plan(shape));
  HORING_TRY(proofs_.prove(plan, shards_.layouts, groups(), config().on_device.has_value()));
  if (config().on_device) {
    HORING_TRY(
        same_launches(shards_.domains->world(), plan, streams_of(plan), config().timeout_ms));
  }
  return progress_->follow(std::move(plan));
}

}  // namespace paro
