// Makes a runner, and ends it.
#include "run/step_runner.hpp"

#include <new>
#include <utility>

#include "run/agreement.hpp"
#include "step/verify.hpp"

namespace paro {
namespace {

// A plan that runs is a plan that was proved, where that takes well below a second and some
// megabytes (a bit per pair of actions of two steps); the tests prove every strategy, and no
// builder looks at how many ranks or units there are.
constexpr double kMaxVerifyingWork = 1U << 28U;
constexpr size_t kMaxVerifiedActions = 4096;

bool is_quickly_verified(const StepPlan& plan, const ho::GroupMap& groups) {
  const double ranks = groups.world_size();
  const auto actions = static_cast<double>(plan.actions.size());
  return plan.actions.size() <= kMaxVerifiedActions &&
         actions * ranks * ranks * ranks * plan.shape.micro_batches <= kMaxVerifyingWork;
}

}  // namespace

// Plans of one config differ in nothing but their number of micro-batches.
ho::Status StepRunner::prove(const StepPlan& plan, const ho::GroupMap& groups) {
  if (proved_.contains(plan.shape.micro_batches) || !is_quickly_verified(plan, groups)) {
    return {};
  }
  ++proofs_;
  HORING_TRY(verify(plan, shards_.layouts, groups));
  proved_.insert(plan.shape.micro_batches);
  return {};
}

StepRunner::StepRunner(
    RunnerConfig config, StepPlan plan, GroupsByUnit groups, Memory& memory, bool packs_one)
    : shards_(std::move(config), memory),
      scheduler_(std::move(plan), packs_one),
      buffers_(scheduler_.plan()),
      updater_(shards_.config, std::move(groups)),
      packs_one_(packs_one) {}

StepRunner::~StepRunner() {
  if (!broken().ok() || shards_.domains == nullptr) {
    return;
  }
  if (!scheduler_.in_step()) {
    // Of a sync-p in several parts the others wait for this rank's next.
    static_cast<void>(synchronize());
  } else {
    // What hooks started may wait for ranks that have left.
    abort(("rank " + std::to_string(self().value()) + " destroyed its runner in the middle of " +
           name(scheduler_.step()))
              .c_str());
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
                                 config.bucket_bytes / ho::size_bytes(config.gradient_dtype)}));
  HORING_ASSIGN(GroupsByUnit parameter_groups, groups_by_unit(config));
  std::unique_ptr<StepRunner> runner(new StepRunner(std::move(config),  // NOLINT: private
                                                    std::move(plan),
                                                    std::move(parameter_groups),
                                                    memory,
                                                    needs_reordering(groups)));
  Shards& shards = runner->shards_;
  HORING_ASSIGN(shards.layouts, lay_out(shards.config.units, groups, shards.config.alignment));
  const StepShape& shape = runner->plan().shape;
  shards.bucket_offsets =
      offsets_of(buckets_of(shape.units, shape.bucket_elements), shards.layouts);
  HORING_TRY(runner->prove(runner->plan(), groups));
  return runner;
}

ho::Status StepRunner::set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms) {
  HORING_TRY(agree_on_config(comm, config(), groups, timeout_ms));
  HORING_TRY(enforce_budget(shards_, plan().shape, comm, groups, timeout_ms));
  HORING_TRY(connect(comm, groups));
  const StateShape shape = state_shape(shards_);
  for (const UnitLayout& layout : layouts()) {
    HORING_ASSIGN(UnitState unit, UnitState::make(shards_.ledger, layout, shape, self()));
    shards_.units.push_back(std::move(unit));
  }
  return buffers_.allocate(shards_, shape);
}

ho::Status StepRunner::connect(ho_comm* comm, const ho::GroupMap& groups) {
  HORING_ASSIGN(Domains domains, Domains::make(comm, groups));
  shards_.domains = std::make_unique<Domains>(std::move(domains));
  ends_ = std::make_unique<StepEnds>(shards_.domains->parent(), config().timeout_ms);
  shards_.make_routes(plan());
  return {};
}

}  // namespace paro
