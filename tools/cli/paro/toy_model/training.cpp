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

// A unit's view in the host's memory: itself, or copies of what lies on a device.
class HostView {
 public:
  [[nodiscard]] static ho::Result<HostView> make(const StepRunner& runner,
                                                 uint32_t unit,
                                                 const UnitView& view) {
    HostView host;
    host.view_ = view;
    const RunnerConfig& config = runner.config();
    if (!config.on_device) {
      return host;
    }
    host.on_device_ = view.gradients;
    const UnitShape& shape = config.units[home_of(config.units, unit)];
    const Operations& operations = runner.shards().ledger.operations();
    const auto copy = [&](const void* from, uint64_t count, ho::DType dtype, auto& to) {
      if (from != nullptr) {
        operations.fetch(from, count * ho::size_bytes(dtype), to);
      }
      return from == nullptr ? nullptr : to.data();
    };
    host.view_.trained = copy(view.trained, shape.trained, config.parameter_dtype, host.trained_);
    host.view_.frozen = copy(view.frozen, shape.frozen, config.parameter_dtype, host.frozen_);
    host.view_.gradients =
        copy(view.gradients, shape.trained, config.gradient_dtype, host.gradients_);
    HORING_TRY(operations.finish());
    return host;
  }
  [[nodiscard]] const UnitView& view() const { return view_; }
  // Gradients back to where they were.
  void store(const StepRunner& runner) const {
    if (on_device_ != nullptr) {
      runner.shards().ledger.operations().store(std::span<const std::byte>(gradients_), on_device_);
    }
  }

 private:
  UnitView view_;
  void* on_device_ = nullptr;
  std::vector<std::byte> trained_;
  std::vector<std::byte> frozen_;
  std::vector<std::byte> gradients_;
};

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
      HORING_ASSIGN(const UnitView seen, runner.before_forward(u));
      HORING_ASSIGN(const HostView host, HostView::make(runner, u, seen));
      const UnitView& view = host.view();
      HORING_TRY(timed(runner, training.forward_time, [&] {
        model.forward(u, {config.parameter_dtype, view.trained, view.frozen}, pass);
      }));
      HORING_TRY(runner.after_forward(u));
    }
    for (uint32_t u = units; u-- > 0;) {
      HORING_ASSIGN(const UnitView seen, runner.before_backward(u));
      HORING_ASSIGN(const HostView host, HostView::make(runner, u, seen));
      const UnitView& view = host.view();
      HORING_TRY(timed(runner, 2 * training.forward_time, [&] {
        model.backward(u,
                       {config.parameter_dtype, view.trained, view.frozen},
                       {config.gradient_dtype, view.gradients},
                       pass,
                       runner.updater().scale().value());
      }));
      host.store(runner);
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
                                  const std::function<ho::Status(StepRunner&)>& watch,
                                  Memory* memory) {
  HORING_ASSIGN(const Model model, Model::make(training.model));
  training.runner.units = unit_shapes(model, training.unit_elements);
  HostMemory host;
  HORING_ASSIGN(
      const auto runner,
      StepRunner::create(comm, groups, training.runner, memory == nullptr ? host : *memory));
  HORING_TRY(load_initial(model, *runner));
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const uint32_t world = groups.world_size();
  Outcome outcome;
  for (uint64_t step = 0; step < training.steps; ++step) {
    HORING_ASSIGN(const TrainedStep trained,
                  train_step(model, *runner, training, step, rank, world));
    HORING_ASSIGN(const double loss, mean_over(comm, trained.loss));
    HORING_ASSIGN(const auto ended, runner->flush(0));
    outcome.steps.push_back({loss, ended->outcome.norm, ended->outcome.applied});
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
