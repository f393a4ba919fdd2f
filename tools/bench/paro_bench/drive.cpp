#include "bench/paro_bench/drive.hpp"

#include <chrono>

#include "bench/paro_bench/processor_time.hpp"
#include "cli/paro/job/measure.hpp"
#include "cli/paro/job/must.hpp"
#include "cli/paro/job/step_account.hpp"
#include "cli/paro/job/timed.hpp"
#include "planner/figures.hpp"

namespace paro::bench {
namespace {

using tool::must;

constexpr uint32_t kWarmUpSteps = 1;

// Steps of the runner that are one step of the system.
uint32_t parts_of(const System& system, const Workload& load) {
  return system.syncs_each_micro_batch ? load.micro_batches : 1;
}

std::chrono::nanoseconds ns(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

void run_micro_batch(StepRunner& runner, const Workload& load) {
  const auto units = static_cast<uint32_t>(load.units.size());
  for (uint32_t u = 0; u < units; ++u) {
    must(runner.before_forward(u));
    must(toy::timed(runner, ns(load.forward_s), [] {}));
    must(runner.after_forward(u));
  }
  for (uint32_t u = units; u-- > 0;) {
    must(runner.before_backward(u));
    must(toy::timed(runner, ns(load.backward_s), [] {}));
    must(runner.after_backward(u));
  }
}

// Of libparo's own as many as the system takes for one of its.
void run_step(StepRunner& runner, const Workload& load, tool::StepAccount* account) {
  for (uint32_t done = 0; done < load.micro_batches;) {
    for (uint32_t k = 0; k < runner.config().micro_batches; ++k, ++done) {
      run_micro_batch(runner, load);
    }
    const StepReport report = must(runner.step());
    if (account != nullptr) {
      account->add(report);
    }
  }
}

void name_actions(const StepPlan& plan, StepTrace& trace) {
  for (const Action& action : plan.actions) {
    trace.names.push_back(to_string(plan, action));
    trace.tracks.push_back(action.track);
  }
}

}  // namespace

Driver::Driver(horing::Communicator& job, const BenchOptions& options)
    : job_(job), options_(options), groups_(must(nodes_of(job.get()))) {
  const auto facts = tool::facts_of(tool::measure_job(job), notes_);
  const ho::Status status = facts.ok() ? apply(*facts, links_) : facts.status();
  if (!status.ok()) {
    notes_.push_back("the step plans' figures are left out: " + status.message());
    links_.world = {0, 0};
  }
}

RunnerConfig Driver::config_of(const System& system, const Workload& load) const {
  RunnerConfig config;
  config.strategy = system.strategy;
  config.frozen = system.strategy.parameters;
  config.units = load.units;
  config.micro_batches = load.micro_batches / parts_of(system, load);
  config.prefetch = options_.prefetch;
  config.bucket_bytes = options_.bucket_bytes;
  config.parameter_dtype = options_.dtype;
  config.gradient_dtype = options_.dtype;
  config.max_norm = 1;
  config.loss_scale.scaling = Scaling::kNone;
  if (system.world == WorldAlgorithm::kMultiRing) {
    config.algorithm = HO_ALGORITHM_MULTI_RING;
  }
  return config;
}

Sample Driver::sample(const System& system, const Workload& load, StepTrace* trace) const {
  RunnerConfig config = config_of(system, load);
  bool traced = false;
  if (trace != nullptr) {
    config.watch = [&](const ActionSpan& span) {
      if (traced) {
        trace->spans.push_back(span);
      }
    };
  }
  HostMemory memory;
  const auto runner = must(StepRunner::create(job_.get(), groups_, config, memory));
  if (trace != nullptr) {
    name_actions(runner->plan(), *trace);
  }
  job_.barrier();
  tool::StepAccount account;
  const uint32_t steps = kWarmUpSteps + options_.steps;
  std::optional<ProcessorTime> started;
  for (uint32_t step = 0; step < steps; ++step) {
    traced = step + 1 == steps;
    if (step == kWarmUpSteps) {
      started = processor_time();
    }
    run_step(*runner, load, step < kWarmUpSteps ? nullptr : &account);
  }
  must(runner->synchronize());
  Sample sample;
  sample.processors_busy = busy_share(started, processor_time());
  sample.times = account.times(job_, parts_of(system, load));
  sample.sent = tool::sent_by_all(job_, *runner, steps);
  if (system.world == WorldAlgorithm::kHoRing) {
    sample.planned = tool::planned_traffic(*runner);
  }
  sample.memory = tool::peak_memory(job_, *runner);
  return sample;
}

std::optional<StrategyFigures> Driver::planned(const System& system, const Workload& load) const {
  if (links_.world.ranks() != groups_.world_size()) {
    return std::nullopt;
  }
  PlannerRequest request = links_;
  request.model = {load.trained + load.frozen, load.trained};
  request.layers = static_cast<uint32_t>(load.units.size());
  const auto element = static_cast<double>(ho::size_bytes(options_.dtype));
  request.bytes = {element, element, 12};
  request.links.world = system.world;
  request.prefetch = options_.prefetch;
  request.bucket_bytes = options_.bucket_bytes;
  const uint32_t parts = parts_of(system, load);
  request.micro_batches = load.micro_batches / parts;
  request.compute_s = load.compute_s() / parts;
  request.forward_share = load.forward_share();
  StrategyFigures figures = must(figures_of(system.strategy, request));
  figures.time.step_s *= parts;
  figures.time.half_links_s *= parts;
  figures.time.communication_s *= parts;
  return figures;
}

}  // namespace paro::bench
