#include "cli/paro/trial.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "base/env.hpp"
#include "capi/step_record.hpp"
#include "cli/paro/job/must.hpp"
#include "cli/paro/job/step_account.hpp"
#include "observe/step_log.hpp"
#include "on_device/device_states.hpp"
#include "run/agreement.hpp"
#include "steering/steering.hpp"

namespace paro::tool {
namespace {

constexpr uint32_t kWarmUpSteps = 2;

double exposed_by_plan(const toy::Training& training,
                       const RunnerConfig& config,
                       PlannerRequest request) {
  const std::vector<UnitShape>& units = config.units;
  uint64_t trained = 0;
  for (const UnitShape& unit : units) {
    trained += unit.trained;
  }
  request.model = {static_cast<double>(trained), static_cast<double>(trained)};
  request.layers = static_cast<uint32_t>(units.size());
  const auto parameter = static_cast<double>(ho::size_bytes(training.runner.parameter_dtype));
  const auto gradient = static_cast<double>(ho::size_bytes(sent_dtype(training.runner)));
  request.bytes = {parameter, gradient, 12};
  request.micro_batches = training.runner.micro_batches;
  request.prefetch = training.runner.prefetch;
  request.bucket_bytes = training.runner.bucket_bytes;
  request.compute_s = 3 * std::chrono::duration<double>(training.forward_time).count() *
                      static_cast<double>(units.size()) * request.micro_batches;
  const auto figures = figures_of(config.strategy, request);
  return figures.ok() ? figures->time.exposed_s : -1;
}

// What the environment requests beside training, as of every program that uses libparo.
struct Beside {
  observe::StepLog log;
  steering::Steering steering;
};

ho::Result<Beside> from_environment(horing::Communicator& job) {
  constexpr uint32_t kInterval = 100;  // as paro_runner_options.auto_interval
  HORING_ASSIGN(observe::StepLog log,
                observe::StepLog::open(
                    {ho::env::text(ho::env::kStepLog), ho::env::text(ho::env::kMetricsFile)},
                    static_cast<uint32_t>(job.rank())));
  HORING_ASSIGN(const bool automatic, ho::env::flag(ho::env::kAutoStrategy));
  return Beside{
      std::move(log),
      steering::Steering({ho::env::text(ho::env::kStrategyFile), automatic, kInterval}, true)};
}

// One rank's failure is reported to all, before the first step.
Beside beside_training(horing::Communicator& job) {
  auto beside = from_environment(job);
  must(all_ok(job.get(), beside.status()));
  return std::move(beside).value();
}

// For states, which the config is told.
std::unique_ptr<Memory> memory_for(horing::Communicator& job, RunnerConfig& config) {
  if (job.device() == HO_DEVICE_NONE) {
    return std::make_unique<HostMemory>();
  }
  auto states = states_on_device(job.get(), nullptr);
  must(all_ok(job.get(), states.status()));
  config.on_device = states->use;
  return std::move(states->memory);
}

// The steps of a job's runner.
class Steps {
 public:
  Steps(horing::Communicator& job,
        std::unique_ptr<StepRunner>& runner,
        uint64_t first,
        uint64_t end)
      : runner_(runner), beside_(beside_training(job)), since_(first), end_(end) {}

  toy::TrainedStep train(const toy::Model& model, const toy::Training& training, uint64_t step) {
    const bool last = step + 1 == end_;  // no strategy is worth taking then
    if (!last) {
      beside_.steering.before_step(*runner_);
    }
    const uint32_t rank = runner_->self().value();
    const auto trained = must(
        toy::train_step(model, *runner_, training, step, rank, runner_->groups().world_size()));
    if (step >= since_ + kWarmUpSteps || end_ - since_ <= kWarmUpSteps) {
      account_.add(trained.report);
    }
    beside_.log.write(capi::record_of(*runner_, trained.report));
    const Strategy before = runner_->config().strategy;
    if (!last) {
      must(beside_.steering.after_step(runner_, trained.report));
    }
    if (runner_->config().strategy != before) {
      since_ = step + 1;
      account_ = {};
    }
    return trained;
  }
  // Steps before the strategy of now was taken.
  [[nodiscard]] uint64_t since() const { return since_; }
  [[nodiscard]] const StepAccount& account() const { return account_; }

 private:
  std::unique_ptr<StepRunner>& runner_;
  Beside beside_;
  StepAccount account_;
  uint64_t since_;
  uint64_t end_;
};

}  // namespace

Trial try_strategy(horing::Communicator& job,
                   const toy::Training& training,
                   const SaveSettings& saving,
                   const PlannerRequest& request) {
  const toy::Model model = must(toy::Model::make(training.model));
  const ho::GroupMap groups = must(nodes_of(job.get()));
  RunnerConfig config = training.runner;
  config.units = toy::unit_shapes(model, training.unit_elements);
  const std::unique_ptr<Memory> memory = memory_for(job, config);
  auto runner = must(StepRunner::create(job.get(), groups, config, *memory));
  must(toy::load_initial(model, *runner));
  Trial trial;
  trial.dtype = config.parameter_dtype;
  trial.sent_is_known = !config.on_device;
  TrainStore store(job, saving, training, runner);
  const TrainStore::Start start = store.begin();
  trial.first_step = start.step;
  trial.same_batches = start.same_batches;
  Steps steps(job, runner, start.step, training.steps);
  job.barrier();
  for (uint64_t step = start.step; step < training.steps; ++step) {
    trial.loss = steps.train(model, training, step).loss;
    store.after_step(step + 1);
  }
  store.finish();
  must(runner->between_steps().check_drift());
  job.all_reduce(std::span<double>(&trial.loss, 1), HO_AVG);
  trial.strategy = runner->config().strategy;
  trial.strategy_since = steps.since();
  trial.times = steps.account().times(job);
  trial.steps = training.steps;
  trial.applied_steps = runner->updater().applied_steps();
  trial.sent = sent_by_all(job, *runner, training.steps - steps.since());
  trial.planned = planned_traffic(*runner);
  trial.memory = peak_memory(job, *runner);
  trial.predicted_exposed = request.world.ranks() == groups.world_size()
                                ? exposed_by_plan(training, runner->config(), request)
                                : -1;
  return trial;
}

}  // namespace paro::tool
