#include "runner_cases.hpp"

#include <cmath>
#include <limits>

#include "checkpoint/load.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/saver.hpp"
#include "must_have.hpp"

namespace paro::test {
namespace {

using ho::test::must_be_ok;
using ho::test::must_have;

// Numbers with few places, so that sums of them are exact.
float small(uint64_t number) {
  return static_cast<float>(number * 2654435761U % 65U) / 256.0F - 0.125F;
}

std::vector<float> initial(uint64_t count, uint32_t unit) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = small(i * 7 + unit) + 0.01F;
  }
  return values;
}

// As a framework: gradients of what this rank sees of the parameters and of its own data.
void compute(
    const StepRunner& runner, const Job& job, uint32_t unit, uint32_t step, const UnitView& view) {
  const RunnerConfig& config = runner.config();
  const Operations& operations = runner.shards().ledger.operations();
  const UnitShape& shape = config.units[home_of(config.units, unit)];
  if (shape.trained == 0) {
    return;
  }
  std::vector<float> parameters(shape.trained);
  std::vector<float> frozen(shape.frozen);
  std::vector<float> gradients(shape.trained);
  operations.fetch(config.parameter_dtype, view.trained, 1, parameters);
  operations.fetch(config.parameter_dtype, view.frozen, 1, frozen);
  operations.fetch(config.gradient_dtype, view.gradients, 1, gradients);
  const auto rank = static_cast<uint32_t>(runner.self().value());
  const auto scale = static_cast<float>(runner.updater().scale().value());
  for (uint64_t i = 0; i < shape.trained; ++i) {
    const float seen = parameters[i] + (frozen.empty() ? 0.0F : frozen[i % frozen.size()]);
    gradients[i] += scale * (small(i + uint64_t{31} * step + uint64_t{17} * rank + unit) +
                             std::floor(seen * 16) / 256);
  }
  if (job.overflows_in == static_cast<int32_t>(step) && rank == 1 && unit == 1) {
    gradients[5] = std::numeric_limits<float>::infinity();
  }
  operations.store(config.gradient_dtype, gradients, view.gradients);
}

template <typename Backward>
void run_micro_batch(StepRunner& runner, const Backward& backward) {
  const auto units = static_cast<uint32_t>(runner.config().units.size());
  for (uint32_t unit = 0; unit < units; ++unit) {
    static_cast<void>(must_have(runner.before_forward(unit)));
    must_be_ok(runner.after_forward(unit));
  }
  for (uint32_t unit = units; unit-- > 0;) {
    backward(unit, must_have(runner.before_backward(unit)));
    must_be_ok(runner.after_backward(unit));
  }
}

}  // namespace

Job job_of(const Strategy& strategy, const std::string& nodes) {
  Job job;
  job.nodes = nodes;
  RunnerConfig& config = job.config;
  config.strategy = strategy;
  config.frozen = strategy.parameters;
  config.units = {{"embedding", 256, 0, {}},
                  {"first", 512, 64, {}},
                  {"second", 128, 0, {}},
                  {"third", 128, 64, {}},
                  {"head", 0, 0, 0U}};
  config.micro_batches = 2;
  config.alignment = 4;
  config.bucket_bytes = 2000;  // two units
  config.max_norm = 1;
  config.rule = AdamW{0.01, 0.9, 0.95, 1e-6, 0.01};
  return job;
}

std::unique_ptr<StepRunner> make_runner(ho_comm* comm, const RunnerConfig& config, Memory& memory) {
  return must_have(StepRunner::create(comm, must_have(nodes_of(comm)), config, memory));
}

void load_initial(StepRunner& runner) {
  const std::vector<UnitShape>& units = runner.config().units;
  for (uint32_t unit = 0; unit < units.size(); ++unit) {
    must_be_ok(runner.between_steps().load(
        unit, initial(units[unit].trained, unit), initial(units[unit].frozen, unit + 100)));
  }
}

void run_hooks(StepRunner& runner) {
  for (uint32_t micro_batch = 0; micro_batch < runner.plan().shape.micro_batches; ++micro_batch) {
    run_micro_batch(runner, [](uint32_t /*unit*/, const UnitView& /*view*/) {});
  }
}

void run_micro_batches(StepRunner& runner, const Job& job, uint32_t step, uint32_t count) {
  for (uint32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
    run_micro_batch(runner, [&](uint32_t unit, const UnitView& view) {
      compute(runner, job, unit, step, view);
    });
  }
}

StepReport train_step(StepRunner& runner, const Job& job, uint32_t step) {
  run_micro_batches(runner, job, step, runner.plan().shape.micro_batches);
  return must_have(runner.step());
}

void save(StepRunner& runner, const std::string& folder) {
  checkpoint::Saver saver(must_have(runner.between_steps().new_communicator("save")));
  must_be_ok(saver.start(checkpoint::request_of(runner, folder, checkpoint::SaveFrom::kRunner),
                         {60000, false}));
}

void restore(StepRunner& runner, const std::string& folder) {
  const auto reader =
      must_have(checkpoint::Reader::open(must_have(checkpoint::find_checkpoint(folder))));
  must_be_ok(runner.between_steps().restore(checkpoint::load(reader, runner, {})));
}

std::vector<std::vector<float>> masters_of(StepRunner& runner) {
  std::vector<std::vector<float>> masters;
  for (uint32_t unit = 0; unit < runner.config().units.size(); ++unit) {
    masters.emplace_back(runner.config().units[unit].trained);
    if (!masters.back().empty()) {
      must_be_ok(runner.between_steps().read_masters(unit, masters.back()));
    }
  }
  return masters;
}

Trained train(ho_comm* comm, const Job& job, const RankStates* on_device, const AfterSteps& last) {
  RunnerConfig config = job.config;
  HostMemory host;
  if (on_device != nullptr) {
    config.on_device = on_device->use;
  }
  const auto runner = make_runner(comm, config, on_device != nullptr ? *on_device->memory : host);
  load_initial(*runner);
  Trained trained;
  for (uint32_t step = 0; step < job.steps; ++step) {
    static_cast<void>(train_step(*runner, job, step));
    const StepOutcome outcome = must_have(runner->flush(0))->outcome;
    trained.norms.push_back(outcome.norm);
    trained.applied.push_back(outcome.applied);
  }
  must_be_ok(runner->between_steps().check_drift());
  trained.masters = masters_of(*runner);
  if (last) {
    last(*runner, comm);
  }
  return trained;
}

}  // namespace paro::test
