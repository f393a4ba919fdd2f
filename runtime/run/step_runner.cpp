#include "run/step_runner.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "optim/gradients.hpp"
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

// Each unit's groups, ascending.
ho::Result<std::vector<std::vector<ParameterGroup>>> by_unit(const RunnerConfig& config) {
  std::vector<std::vector<ParameterGroup>> groups(config.units.size());
  for (size_t i = 0; i < config.groups.size(); ++i) {
    const ParameterGroup& group = config.groups[i];
    const auto refused = [&](const std::string& why) {
      return ho::Status(ho::StatusCode::kInvalidArgument,
                        "parameter_groups[" + std::to_string(i) + "]: " + why);
    };
    const bool there = group.unit < config.units.size();
    const uint64_t trained = there ? config.units[group.unit].trained : 0;
    if (!there || group.range.begin >= group.range.end || group.range.end > trained) {
      return refused("elements " + std::to_string(group.range.begin) + " to " +
                     std::to_string(group.range.end) + " (not included) of unit " +
                     std::to_string(group.unit) + ", which has " + std::to_string(trained) +
                     " trained elements");
    }
    constexpr double kMax = 1e6;
    if (!(group.rate_factor >= 0 && group.rate_factor <= kMax) ||
        !(group.weight_decay >= 0 && group.weight_decay <= kMax)) {
      return refused("elements " + std::to_string(group.range.begin) + " to " +
                     std::to_string(group.range.end) + " (not included) of unit " +
                     std::to_string(group.unit) + " (" + config.units[group.unit].name +
                     "): learning_rate_factor " + std::to_string(group.rate_factor) +
                     ", weight_decay " + std::to_string(group.weight_decay) +
                     "; both take 0 to 1e6");
    }
    groups[group.unit].push_back(group);
  }
  for (auto& of_unit : groups) {
    std::sort(of_unit.begin(), of_unit.end(), [](const auto& a, const auto& b) {
      return a.range.begin < b.range.begin;
    });
    for (size_t i = 1; i < of_unit.size(); ++i) {
      if (of_unit[i].range.begin < of_unit[i - 1].range.end) {
        return ho::Status(ho::StatusCode::kInvalidArgument,
                          "parameter_groups: two have element " +
                              std::to_string(of_unit[i].range.begin) + " of unit " +
                              std::to_string(of_unit[i].unit));
      }
    }
  }
  return groups;
}

ho::Status check_config(const RunnerConfig& config) {
  const auto refused = [](const std::string& what) {
    return ho::Status(ho::StatusCode::kInvalidArgument, what);
  };
  HORING_TRY(check(config.strategy));
  HORING_TRY(check(config.loss_scale));
  if (!config.optimizer) {
    HORING_TRY(check(config.rule));
  } else if (std::visit([](const auto& rule) { return std::isnan(rule.learning_rate); },
                        config.rule)) {
    return refused("a learning rate that is not a number");
  }
  for (const ho::DType dtype : {config.parameter_dtype, config.gradient_dtype}) {
    if (!is_compute_type(dtype)) {
      return refused("parameters and gradients are float32, float16 or bfloat16, not " +
                     std::string(ho::to_string(dtype)));
    }
  }
  if (config.algorithm == HO_ALGORITHM_DIRECT &&
      ho::size_bytes(config.gradient_dtype) < sizeof(float)) {
    return refused(
        "the direct algorithm with gradients of 16 bits: it cannot sum them in fp32; take "
        "float32 gradients, or ho_ring");
  }
  if (!(config.max_norm >= 0)) {
    return refused("max_norm " + std::to_string(config.max_norm) + ": takes 0 (none) or more");
  }
  HORING_TRY(by_unit(config).status());
  if (config.prefetch > config.units.size()) {
    return refused("a prefetch of " + std::to_string(config.prefetch) + " units of " +
                   std::to_string(config.units.size()) + ": takes at most all of them");
  }
  return {};
}

}  // namespace

// Plans of one config differ in nothing but their number of micro-batches.
ho::Status StepRunner::prove(const StepPlan& plan, const ho::GroupMap& groups) {
  if (proved_.contains(plan.shape.micro_batches) || !is_quickly_verified(plan, groups)) {
    return {};
  }
  ++proofs_;
  HORING_TRY(verify(plan, layouts_, groups));
  proved_.insert(plan.shape.micro_batches);
  return {};
}

StepRunner::StepRunner(RunnerConfig config, StepPlan plan, Memory& memory)
    : config_(std::move(config)),
      plan_(std::move(plan)),
      ledger_(memory),
      scale_(config_.loss_scale),
      step_micro_batches_(config_.micro_batches) {
  queue_actions();
}

StepRunner::~StepRunner() {
  if (!broken_.ok() || domains_ == nullptr) {
    return;
  }
  if (!in_step_) {
    // Of a sync-p in several parts the others wait for this rank's next.
    static_cast<void>(synchronize());
  } else {
    // What hooks started may wait for ranks that have left.
    domains_->abort(("rank " + std::to_string(domains_->self().value()) +
                     " destroyed its runner in the middle of step " + std::to_string(steps_ + 1))
                        .c_str());
  }
}

void StepRunner::queue_actions() {
  times_ended_.assign(plan_.actions.size(), 0);
  for (auto& queue : queues_) {
    queue.clear();
  }
  for (ActionId id = 0; id < plan_.actions.size(); ++id) {
    queues_[static_cast<size_t>(plan_.actions[id].channel)].push_back(id);
  }
  slot_.clear();
  output_.clear();
  pack_.clear();
  uint32_t slot = 0;
  uint32_t output = 0;
  uint32_t pack = 0;
  for (const Action& action : plan_.actions) {
    slot_.push_back(slot);
    output_.push_back(output);
    pack_.push_back(pack);
    slot += action.act == Act::kForward || action.act == Act::kBackward ? 1U : 0U;
    output += action.act == Act::kReduceScatter && action.phase == Phase::kBackward ? 1U : 0U;
    pack += is_merged(action) ? 1U : 0U;
  }
}

void StepRunner::make_routes() {
  trained_routes_.clear();
  frozen_routes_.clear();
  merged_routes_.clear();
  for (const UnitLayout& layout : layouts_) {
    trained_routes_.emplace_back(layout.trained, *domains_);
    frozen_routes_.emplace_back(layout.frozen, *domains_);
  }
  for (const Action& action : plan_.actions) {
    if (!is_merged(action) || merged_routes_.contains(action.unit)) {
      continue;
    }
    std::vector<const Partition*> partitions;
    for (const uint32_t unit : units_of(action)) {
      partitions.push_back(&layouts_[unit].trained);
    }
    if (config_.mistake == Mistake::kForgetUnitOfBucket) {
      partitions.pop_back();
    }
    merged_routes_.emplace(action.unit, Routes(partitions, *domains_));
  }
}

ho::Result<std::unique_ptr<StepRunner>> StepRunner::create(ho_comm* comm,
                                                           const ho::GroupMap& groups,
                                                           RunnerConfig config,
                                                           Memory& memory,
                                                           uint64_t timeout_ms) {
  auto runner = prepare_or_say(groups, std::move(config), memory);
  // A rank that stopped here on its own would leave the others waiting until their deadlines.
  HORING_TRY(all_ok(comm, runner.status(), timeout_ms));
  // Once more at the end: a runner that is there is there on all ranks.
  HORING_TRY(all_ok(comm, runner.value()->set_up(comm, groups, timeout_ms), timeout_ms));
  return runner;
}

// Nothing that this rank meets may keep it from telling the others.
ho::Result<std::unique_ptr<StepRunner>> StepRunner::prepare_or_say(const ho::GroupMap& groups,
                                                                   RunnerConfig config,
                                                                   Memory& memory) {
  try {
    return prepare(groups, std::move(config), memory);
  } catch (const std::bad_alloc&) {
    return ho::Status(ho::StatusCode::kOutOfMemory, "no memory for the step plan and the layout");
  }
}

ho::Result<std::unique_ptr<StepRunner>> StepRunner::prepare(const ho::GroupMap& groups,
                                                            RunnerConfig config,
                                                            Memory& memory) {
  HORING_TRY(check_config(config));
  HORING_ASSIGN(StepPlan plan,
                build_step_plan({config.strategy,
                                 config.frozen,
                                 config.units,
                                 config.micro_batches,
                                 config.prefetch,
                                 config.bucket_bytes / ho::size_bytes(config.gradient_dtype)}));
  std::unique_ptr<StepRunner> runner(
      new StepRunner(std::move(config), std::move(plan), memory));  // NOLINT: private constructor
  HORING_ASSIGN(runner->layouts_,
                lay_out(runner->config_.units, groups, runner->config_.alignment));
  HORING_ASSIGN(runner->groups_, by_unit(runner->config_));
  const StepShape& shape = runner->plan_.shape;
  runner->bucket_places_ =
      places_of(buckets_of(shape.units, shape.bucket_elements), runner->layouts_);
  HORING_TRY(runner->prove(runner->plan_, groups));
  return runner;
}

ho::Status StepRunner::set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms) {
  HORING_TRY(agree_on_config(comm, config_, groups, timeout_ms));
  HORING_TRY(enforce_budget(comm, groups, timeout_ms));
  HORING_ASSIGN(Domains domains, Domains::make(comm, groups));
  domains_ = std::make_unique<Domains>(std::move(domains));
  ends_ = std::make_unique<StepEnds>(domains_->parent(), config_.timeout_ms);
  const StateShape shape = state_shape();
  make_routes();
  for (const UnitLayout& layout : layouts_) {
    HORING_ASSIGN(UnitState unit, UnitState::make(ledger_, layout, shape, domains_->self()));
    units_.push_back(std::move(unit));
  }
  const auto buffers = [&](std::vector<Buffer>& into,
                           Purpose purpose,
                           uint32_t count,
                           uint64_t bytes) -> ho::Status {
    for (uint32_t i = 0; i < count; ++i) {
      HORING_ASSIGN(Buffer buffer, ledger_.allocate(purpose, bytes));
      into.push_back(std::move(buffer));
    }
    return {};
  };
  const uint64_t element = ho::size_bytes(config_.parameter_dtype);
  const bool split = config_.strategy.parameters != Scope::kReplicated;
  const bool split_frozen = config_.frozen != Scope::kReplicated;
  HORING_TRY(buffers(gathered_trained_,
                     Purpose::kGathered,
                     shape.gathered_buffers,
                     split ? largest_trained(layouts_) * element : 0));
  HORING_TRY(buffers(gathered_frozen_,
                     Purpose::kGathered,
                     shape.gathered_buffers,
                     split_frozen ? largest_frozen(layouts_) * element : 0));
  const uint64_t gradient = ho::size_bytes(config_.gradient_dtype);
  HORING_TRY(buffers(packs_, Purpose::kScratch, kPackBuffers, shape.merged_elements * gradient));
  return buffers(outputs_,
                 Purpose::kOutput,
                 output_buffers_of(shape),
                 output_elements_of(shape, layouts_) * gradient);
}

ho::Status StepRunner::load(uint32_t unit,
                            std::span<const float> trained,
                            std::span<const float> frozen) {
  HORING_TRY(between_steps("load"));
  if (unit < units_.size() && config_.units[unit].shares) {
    // Nothing of it is kept or compared: it has no values.
    return trained.empty() && frozen.empty() ? ho::Status() : shares_another("load", unit);
  }
  if (unit >= units_.size() || trained.size() != config_.units[unit].trained ||
      frozen.size() != config_.units[unit].frozen) {
    return {ho::StatusCode::kInvalidArgument,
            "load: unit " + std::to_string(unit) + " with " + std::to_string(trained.size()) +
                " trained and " + std::to_string(frozen.size()) + " frozen elements" +
                (unit < units_.size()
                     ? ", where it has " + std::to_string(config_.units[unit].trained) + " and " +
                           std::to_string(config_.units[unit].frozen)
                     : ", of " + std::to_string(units_.size()) + " units")};
  }
  HORING_TRY(synchronize());
  const auto put = [](const Storage& storage, std::span<const float> values) {
    for (const Range& range : storage.ranges()) {
      // The buffer's end may be padding.
      const uint64_t end = std::min<uint64_t>(range.end, values.size());
      if (range.begin < end) {
        round_to(storage.dtype(),
                 values.subspan(range.begin, end - range.begin),
                 storage.at(range.begin));
      }
    }
  };
  put(units_[unit].parameters, trained);
  put(units_[unit].frozen, frozen);
  put(units_[unit].master(), trained);
  note_load(unit, trained, frozen);
  return {};
}

ho::Status StepRunner::shares_another(const char* what, uint32_t unit) const {
  const uint32_t home = home_of(config_.units, unit);
  return {ho::StatusCode::kInvalidArgument,
          std::string(what) + ": unit " + std::to_string(unit) + " (" + config_.units[unit].name +
              ") shares the parameters of unit " + std::to_string(home) + " (" +
              config_.units[home].name + ") and has no elements of its own: call it for that unit"};
}

void StepRunner::abort(const char* reason) {
  domains_->abort(reason);
}

}  // namespace paro
