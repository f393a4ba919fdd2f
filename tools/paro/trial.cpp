#include "paro/trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

namespace paro::tool {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t kWarmUpSteps = 2;

template <typename T>
T must(ho::Result<T> result) {
  if (!result.ok()) {
    throw horing::Error(static_cast<ho_status>(result.status().code()), result.status().message());
  }
  return std::move(result).value();
}

void must(const ho::Status& status) {
  if (!status.ok()) {
    throw horing::Error(static_cast<ho_status>(status.code()), status.message());
  }
}

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// Seconds of this rank, over the steps that count.
struct Account {
  double step = 0;
  double compute = 0;
  double wait = 0;
  double update = 0;
  double hooks = 0;
  double hook_count = 0;
  uint32_t steps = 0;

  void add(const toy::TrainedStep& trained, double took) {
    step += took;
    compute += seconds(trained.compute_ns);
    wait += seconds(trained.report.wait_ns);
    update += seconds(trained.report.update_ns);
    hooks += seconds(trained.report.hook_ns);
    hook_count += static_cast<double>(trained.report.hooks);
    ++steps;
  }
};

TrialTimes times_of(horing::Communicator& job, const Account& account) {
  const double steps = std::max<uint32_t>(account.steps, 1);
  std::array<double, 5> means{account.step / steps,
                              account.compute / steps,
                              account.wait / steps,
                              account.update / steps,
                              account.hooks / steps};
  double least_wait = means[2];
  job.all_reduce(std::span<double>(means), HO_AVG);
  job.all_reduce(std::span<double>(&least_wait, 1), HO_MIN);
  TrialTimes times;
  times.step = means[0];
  times.compute = means[1];
  times.exposed = least_wait;
  times.idle = means[2] - least_wait;
  times.update = means[3];
  times.hooks = means[4];
  times.per_hook = means[4] * steps / std::max(account.hook_count, 1.0);
  return times;
}

Traffic sent_by_all(horing::Communicator& job, const StepRunner& runner, uint32_t steps) {
  std::array<uint64_t, 2> sent{};
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kSyncG, Phase::kSyncP}) {
    sent[0] += runner.sent(phase).intra;
    sent[1] += runner.sent(phase).inter;
  }
  job.all_reduce(std::span<uint64_t>(sent), HO_SUM);
  return {sent[0] / steps, sent[1] / steps};
}

// The fullest rank's, alike on all ranks.
void account_memory(horing::Communicator& job, const StepRunner& runner, Trial& trial) {
  std::array<uint64_t, 2> bytes{runner.predicted().total(), runner.ledger().peak().total()};
  job.all_reduce(std::span<uint64_t>(bytes), HO_MAX);
  trial.predicted_bytes = bytes[0];
  trial.actual_bytes = bytes[1];
}

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
                   const PlanRequest& request) {
  const toy::Model model = must(toy::Model::make(training.model));
  const ho::GroupMap groups = must(nodes_of(job.get()));
  RunnerConfig config = training.runner;
  config.units = toy::unit_shapes(model, training.unit_elements);
  HostMemory memory;
  const auto runner = must(StepRunner::create(job.get(), groups, config, memory));
  must(toy::load_initial(model, *runner));
  const auto rank = static_cast<uint32_t>(job.rank());
  Account account;
  Trial trial;
  trial.strategy = config.strategy;
  trial.dtype = config.parameter_dtype;
  job.barrier();
  auto before = Clock::now();
  for (uint32_t step = 0; step < training.steps; ++step) {
    const auto trained =
        must(toy::train_step(model, *runner, training, step, rank, groups.world_size()));
    const auto now = Clock::now();
    if (step >= kWarmUpSteps || training.steps <= kWarmUpSteps) {
      account.add(trained, std::chrono::duration<double>(now - before).count());
    }
    before = now;
    trial.loss = trained.loss;
  }
  must(runner->check_drift());
  job.all_reduce(std::span<double>(&trial.loss, 1), HO_AVG);
  trial.times = times_of(job, account);
  trial.steps = training.steps;
  trial.applied_steps = runner->applied_steps();
  trial.sent = sent_by_all(job, *runner, training.steps);
  const StepTraffic planned(
      runner->plan(),
      runner->layouts(),
      groups,
      groups,
      {ho::size_bytes(config.parameter_dtype), ho::size_bytes(config.gradient_dtype)});
  trial.planned = planned.total();
  account_memory(job, *runner, trial);
  trial.predicted_exposed = request.world.ranks() == groups.world_size()
                                ? exposed_by_plan(training, config.units, request)
                                : -1;
  return trial;
}

}  // namespace paro::tool
