#include "paro/trial.hpp"

#include <chrono>
#include <span>

#include "paro/must.hpp"
#include "paro/step_account.hpp"

namespace paro::tool {
namespace {

constexpr uint32_t kWarmUpSteps = 2;

double exposed_by_plan(const toy::Training& training,
                       const std::vector<UnitShape>& units,
                       PlanRequest request) {
  uint64_t trained = 0;
  for (const UnitShape& unit : units) {
    trained += unit.trained;
  }
  request.model = {static_cast<double>(trained), static_cast<double>(trained)};
  request.layers = static_cast<uint32_t>(units.size());
  const auto parameter = static_cast<double>(ho::size_bytes(training.runner.parameter_dtype));
  const auto gradient = static_cast<double>(ho::size_bytes(training.runner.gradient_dtype));
  request.bytes = {parameter, gradient, 12};
  request.micro_batches = training.runner.micro_batches;
  request.prefetch = training.runner.prefetch;
  request.bucket_bytes = training.runner.bucket_bytes;
  request.compute_s = 3 * std::chrono::duration<double>(training.forward_time).count() *
                      static_cast<double>(units.size()) * request.micro_batches;
  const auto figures = figures_of(training.runner.strategy, request);
  return figures.ok() ? figures->time.exposed_s : -1;
}

}  // namespace

Trial try_strategy(horing::Communicator& job,
                   const toy::Training& training,
                   const SavePlan& saving,
                   const PlanRequest& request) {
  const toy::Model model = must(toy::Model::make(training.model));
  const ho::GroupMap groups = must(nodes_of(job.get()));
  RunnerConfig config = training.runner;
  config.units = toy::unit_shapes(model, training.unit_elements);
  HostMemory memory;
  const auto runner = must(StepRunner::create(job.get(), groups, config, memory));
  must(toy::load_initial(model, *runner));
  const auto rank = static_cast<uint32_t>(job.rank());
  StepAccount account;
  Trial trial;
  trial.strategy = config.strategy;
  trial.dtype = config.parameter_dtype;
  TrainStore store(job, saving, training, *runner);
  const TrainStore::Start start = store.begin();
  trial.first_step = start.step;
  trial.same_batches = start.same_batches;
  const uint64_t steps = training.steps - start.step;
  job.barrier();
  for (uint64_t step = start.step; step < training.steps; ++step) {
    const auto trained =
        must(toy::train_step(model, *runner, training, step, rank, groups.world_size()));
    if (step >= start.step + kWarmUpSteps || steps <= kWarmUpSteps) {
      account.add(trained.report);
    }
    trial.loss = trained.loss;
    store.after_step(step + 1);
  }
  store.finish();
  must(runner->check_drift());
  job.all_reduce(std::span<double>(&trial.loss, 1), HO_AVG);
  trial.times = account.times(job);
  trial.steps = training.steps;
  trial.applied_steps = runner->applied_steps();
  trial.sent = sent_by_all(job, *runner, steps);
  trial.planned = planned_traffic(*runner);
  trial.memory = peak_memory(job, *runner);
  trial.predicted_exposed = request.world.ranks() == groups.world_size()
                                ? exposed_by_plan(training, config.units, request)
                                : -1;
  return trial;
}

}  // namespace paro::tool
