#include "cli/paro/toy_model/training.hpp"

#include <algorithm>
#include <utility>

#include "cli/paro/job/timed.hpp"

namespace paro::toy {
namespace {

ho::Result<double> mean_over(ho_comm* comm, double value) {
  double mean = 0;
  HORING_TRY(checked(
      ho_all_reduce(comm, &value, &mean, 1, HO_FLOAT64, HO_AVG, nullptr, nullptr, nullptr)));
  return mean;
}

}  // namespace

std::vector<UnitShape> unit_shapes(const Model& model, uint64_t unit_elements) {
  std::vector<UnitShape> shapes;
  for (const UnitCounts& unit : model.units()) {
    const uint64_t trained = unit.shares ? 0 : std::max(unit.trained, unit_elements);
    shapes.push_back({unit.name, trained, unit.frozen, unit.shares});
  }
  return shapes;
}

ho::Status load_initial(const Model& model, StepRunner& runner) {
  for (uint32_t u = 0; u < model.units().size(); ++u) {
    std::vector<float> trained(model.units()[u].trained);
    std::vector<float> frozen(model.units()[u].frozen);
    model.initial(u, trained, frozen);
    trained.resize(runner.config().units[u].trained);
    HORING_TRY(runner.between_steps().load(u, trained, frozen));
  }
  return {};
}

ho::Result<TrainedStep> train_step(const Model& model,
                                   StepRunner& runner,
                                   const Training& training,
                                   uint64_t step,
                                   uint32_t rank,
                                   uint32_t world) {
  const auto units = static_cast<uint32_t>(model.units().size());
  const RunnerConfig& config = runner.config();
  TrainedStep trained;
  for (uint32_t k = 0; k < config.micro_batches; ++k) {
    const uint64_t first = (uint64_t{k} * world + rank) * training.samples;
    Pass pass = model.begin(model.batch_of(step, {first, training.samples}));
    for (uint32_t u = 0; u < units; ++u) {
      HORING_ASSIGN(const UnitView view, runner.before_forward(u));
      HORING_TRY(timed(runner, training.forward_time, [&] {
        model.forward(u, {config.parameter_dtype, view.trained, view.frozen}, pass);
      }));
      HORING_TRY(runner.after_forward(u));
    }
    for (uint32_t u = units; u-- > 0;) {
      HORING_ASSIGN(const UnitView view, runner.before_backward(u));
      HORING_TRY(timed(runner, 2 * training.forward_time, [&] {
        model.backward(u,
                       {config.parameter_dtype, view.trained, view.frozen},
                       {config.gradient_dtype, view.gradients},
                       pass,
                       runner.updater().scale().value());
      }));
      HORING_TRY(runner.after_backward(u));
    }
    trained.loss += pass.loss / config.micro_batches;
  }
  HORING_ASSIGN(trained.report, runner.step());
  return trained;
}

ho::Result<Outcome> train_sharded(ho_comm* comm,
                                  const ho::GroupMap& groups,
                                  Training training,
                                  const std::function<ho::Status(StepRunner&)>& watch) {
  HORING_ASSIGN(const Model model, Model::make(training.model));
  training.runner.units = unit_shapes(model, training.unit_elements);
  HostMemory memory;
  HORING_ASSIGN(const auto runner, StepRunner::create(comm, groups, training.runner, memory));
  HORING_TRY(load_initial(model, *runner));
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const uint32_t world = groups.world_size();
  Outcome outcome;
  for (uint64_t step = 0; step < training.steps; ++step) {
    HORING_ASSIGN(const TrainedStep trained,
                  train_step(model, *runner, training, step, rank, world));
    HORING_ASSIGN(const double loss, mean_over(comm, trained.loss));
    outcome.steps.push_back({loss, trained.report.norm, trained.report.applied});
    if (watch) {
      HORING_TRY(watch(*runner));
    }
  }
  for (uint32_t u = 0; u < model.units().size(); ++u) {
    outcome.masters.emplace_back(training.runner.units[u].trained);
    HORING_TRY(runner->between_steps().read_masters(u, outcome.masters.back()));
    outcome.masters.back().resize(model.units()[u].trained);
  }
  return outcome;
}

}  // namespace paro::toy
