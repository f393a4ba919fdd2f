// Makes a runner, ends it, and makes it go on over another communicator.
#include "run/step_runner.hpp"

#include <new>
#include <utility>

#include "base/env.hpp"
#include "run/agreement.hpp"
#include "run/budget.hpp"
#include "run/collectives.hpp"
#include "run/start_in_order.hpp"
#include "run/start_when_ready.hpp"

namespace paro {
namespace {

std::unique_ptr<StepProgress> progress_of(
    Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one) {
  if (shards.config.on_device) {
    return std::make_unique<StartInOrder>(shards, updater, agreement, std::move(plan), packs_one);
  }
  return std::make_unique<StartWhenReady>(shards, updater, agreement, std::move(plan), packs_one);
}

}  // namespace

StepRunner::StepRunner(
    RunnerConfig config, StepPlan plan, GroupsByUnit groups, Memory& memory, bool packs_one)
    : shards_(std::move(config), memory),
      updater_(shards_.config, std::move(groups)),
      agreement_(shards_),
      progress_(progress_of(shards_, updater_, agreement_, std::move(plan), packs_one)),
      hooks_(shards_, *progress_),
      between_steps_(shards_, updater_, agreement_, *progress_) {}

StepRunner::~StepRunner() {
  if (shards_.domains == nullptr) {
    return;
  }
  if (broken().ok() && !scheduler().in_step()) {
    // Of a sync-p in several parts the others wait for this rank's next.
    static_cast<void>(synchronize());
  } else if (broken().ok()) {
    // What hooks started may wait for ranks that have left.
    abort(("rank " + std::to_string(self().value()) + " destroyed its runner in the middle of " +
           step_name())
              .c_str());
    shards_.ledger.memory().limit_waits(shards_.wait_after_failure_ms());
  }
  if (agreement_.waits_for() != nullptr) {
    // The copy goes to what ends here. An abort has let it come.
    static_cast<void>(shards_.operations(Track::kReductions).arrived(0));
  }
}

ho::Result<std::unique_ptr<StepRunner>> StepRunner::create(ho_comm* comm,
                                                           const ho::GroupMap& groups,
                                                           RunnerConfig config,
                                                           Memory& memory,
                                                           uint64_t timeout_ms) {
  // Nothing that this rank meets may keep it from telling the others: they would wait for it until
  // their deadlines.
  auto runner = [&]() -> ho::Result<std::unique_ptr<StepRunner>> {
    try {
      return prepare(groups, std::move(config), memory);
    } catch (const std::bad_alloc&) {
      return ho::Status(ho::StatusCode::kOutOfMemory, "no memory for the step plan and the layout");
    }
  }();
  HORING_TRY(all_ok(comm, runner.status(), timeout_ms));
  // Once more at the end: a runner that is there is there on all ranks.
  HORING_TRY(all_ok(comm, runner.value()->set_up(comm, groups, timeout_ms), timeout_ms));
  return runner;
}

ho::Result<std::unique_ptr<StepRunner>> StepRunner::prepare(const ho::GroupMap& groups,
                                                            RunnerConfig config,
                                                            Memory& memory) {
  HORING_TRY(check(config));
  HORING_ASSIGN(StepPlan plan,
                build_step_plan({config.strategy,
                                 config.frozen,
                                 config.units,
                                 config.micro_batches,
                                 config.prefetch,
                                 config.bucket_bytes / ho::size_bytes(sent_dtype(config))}));
  HORING_ASSIGN(GroupsByUnit parameter_groups, groups_by_unit(config));
  std::unique_ptr<StepRunner> runner(new StepRunner(std::move(config),  // NOLINT: private
                                                    std::move(plan),
                                                    std::move(parameter_groups),
                                                    memory,
                                                    needs_reordering(groups)));
  Shards& shards = runner->shards_;
  if (shards.config.on_device && !groups.equal_groups()) {
    return ho::Status(ho::StatusCode::kUnsupported,
                      "NCCL's collectives with groups of " + groups.to_string() +
                          " ranks: it wants equal parts, and so groups of one size; set group_size "
                          "or group_file so, or take states on the host and libhoring's");
  }
  HORING_ASSIGN(shards.layouts,
                lay_out(shards.config.units,
                        groups,
                        shards.config.alignment,
                        shards.config.on_device ? PartSizes::kEqual : PartSizes::kAny));
  const StepShape& shape = runner->plan().shape;
  shards.bucket_offsets =
      offsets_of(buckets_of(shape.units, shape.bucket_elements), shards.layouts);
  HORING_TRY(runner->proofs_.prove(
      runner->plan(), shards.layouts, groups, shards.config.on_device.has_value()));
  return runner;
}

ho::Status StepRunner::set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms) {
  HORING_TRY(agree_on_config(comm, config(), groups, timeout_ms));
  HORING_TRY(enforce_budget(shards_, plan().shape, comm, groups, timeout_ms));
  if (config().on_device) {
    HORING_TRY(same_launches(comm, plan(), streams_of(plan()), timeout_ms));
  }
  HORING_TRY(connect(comm, groups));
  const StateShape shape = state_shape(shards_);
  for (const UnitLayout& layout : shards_.layouts) {
    HORING_ASSIGN(UnitState unit, UnitState::make(shards_.ledger, layout, shape, self()));
    shards_.units.push_back(std::move(unit));
  }
  HORING_ASSIGN(shards_.control, ControlMemory::make(shards_.ledger.memory()));
  return progress_->allocate(shape);
}

ho::Status StepRunner::connect(ho_comm* comm, const ho::GroupMap& groups) {
  const auto& on_device = config().on_device;
  HORING_ASSIGN(const uint64_t default_ms, ho::env::number(ho::env::kTimeoutMs));
  HORING_ASSIGN(Domains domains,
                Domains::make(comm,
                              groups,
                              on_device ? &*on_device : nullptr,
                              used_tracks(plan()),
                              config().timeout_ms == 0 ? default_ms : config().timeout_ms));
  shards_.domains = std::make_unique<Domains>(std::move(domains));
  progress_->use_ends(shards_.domains->parent());
  shards_.make_routes(plan());
  ho::Status connected = on_device ? connect_collectives(shards_, plan()) : ho::Status();
  if (!connected.ok()) {
    shards_.domains->abort(connected.message().c_str());  // the others wait for this rank
  }
  return connected;
}

ho::Result<UnitView> StepRunner::before_forward(uint32_t unit) {
  return hooks_.begin(Act::kForward, unit);
}

ho::Status StepRunner::after_forward(uint32_t unit) {
  return hooks_.end(Act::kForward, unit);
}

ho::Result<UnitView> StepRunner::before_backward(uint32_t unit) {
  return hooks_.begin(Act::kBackward, unit);
}

ho::Status StepRunner::after_backward(uint32_t unit) {
  return hooks_.end(Act::kBackward, unit);
}

void StepRunner::set_learning_rate(double rate) {
  std::visit([rate](auto& rule) { rule.learning_rate = rate; }, shards_.config.rule);
}

// What allocates and frees memory of the device, or pins it, waits for the device without a
// deadline: all that this runner has given it is waited for first, with one.
ho::Status StepRunner::end_on_device() {
  // A collective that holds a stream meets its deadline before, and is the cause then.
  shards_.ledger.memory().limit_waits((broken().ok() ? 2 : 1) * shards_.wait_after_failure_ms());
  for (size_t track = 0; track < kTrackCount; ++track) {
    HORING_TRY(shards_.operations(static_cast<Track>(track)).finish().with_context("rejoin"));
  }
  return {};
}

// A device may have ended a step of which this rank has not heard.
ho::Status StepRunner::end_what_failed() {
  if (const std::string* const step = agreement_.waits_for()) {
    HORING_TRY(shards_.operations(Track::kReductions).finish().with_context(*step));
  }
  if (agreement_.drop()) {
    updater_.end_step(agreement_.outcome());
  }
  updater_.follow_scale();
  return {};
}

ho::Status StepRunner::rejoin(ho_comm* comm) {
  progress_->drop_all();
  const ho::Status ended = end_on_device();
  // Until it ends well: what was under way is gone.
  if (broken().ok()) {
    shards_.broken = {ho::StatusCode::kAborted, "this runner's rejoin() failed"};
  }
  HORING_TRY(ended);
  HORING_TRY(end_what_failed());
  HORING_TRY(updater_.same_progress(comm, self()));
  const ho::GroupMap of_before = groups();
  HORING_TRY(connect(comm, of_before));
  progress_->go_on_from({updater_.applied_steps()});
  hooks_.forget();
  shards_.broken = {};
  shards_.ledger.memory().limit_waits(0);
  return shards_.break_unless_ok(
      round_parameters(shards_, progress_->buffers(), plan()),
      "restoring parameters after step " + std::to_string(scheduler().step().value));
}

ho::Status StepRunner::carry_over(const History& history) {
  progress_->carry_over(history.sent);
  agreement_.carry_over(history.loads, history.outcome);
  last_ = history.last;
  signalled_ = history.signalled;
  return use_micro_batches(history.micro_batches);
}

}  // namespace paro
