// Trains the toy model: on sharded states through a StepRunner, and on one rank without any of it.
//
// Both take the same global batches: rank r's micro-batch k of a step is samples (k n + r) c to
// (k n + r + 1) c - 1 of that step, for n ranks and c samples. The single-rank baseline adds the
// gradients of all of them in double precision, and has its own optimizer arithmetic; so where the
// two agree, sharding lost, doubled and mixed up nothing.
#pragma once

#include <horing.h>

#include <chrono>
#include <functional>
#include <vector>

#include "cli/paro/toy_model/toy_model.hpp"
#include "run/step_runner.hpp"

namespace paro::toy {

struct Training {
  Configuration model;
  RunnerConfig runner;  // units are filled in
  uint32_t steps = 50;
  uint32_t samples = 2;  // of a micro-batch
  // Every unit is filled up to this many trained elements, which the model does not use: as many
  // bytes as a large model has, without its arithmetic.
  uint64_t unit_elements = 0;
  // A unit's forward pass takes at least this long, its backward pass twice as long, as if a device
  // did it: the process sleeps.
  std::chrono::nanoseconds forward_time{0};
};

struct StepOutcome {
  double loss = 0;  // mean over the global batch, before the step
  double norm = 0;
  bool applied = true;
};

struct Outcome {
  std::vector<StepOutcome> steps;
  std::vector<std::vector<float>> masters;  // whole, by unit
};

// The units of a model, as the runtime takes them.
[[nodiscard]] std::vector<UnitShape> unit_shapes(const Model& model, uint64_t unit_elements);
// Every unit's initial values; zeros in what fills it up.
[[nodiscard]] ho::Status load_initial(const Model& model, StepRunner& runner);
// One step through all hooks; the mean loss of this rank's micro-batches.
struct TrainedStep {
  double loss = 0;
  StepReport report;
};
[[nodiscard]] ho::Result<TrainedStep> train_step(const Model& model,
                                                 StepRunner& runner,
                                                 const Training& training,
                                                 uint64_t step,
                                                 uint32_t rank,
                                                 uint32_t world);

// Collective. `watch` sees the runner after each step. `memory` is where states live; nullptr: the
// host's. The model computes on the host: of states on a device, with copies.
[[nodiscard]] ho::Result<Outcome> train_sharded(
    ho_comm* comm,
    const ho::GroupMap& groups,
    Training training,
    const std::function<ho::Status(StepRunner&)>& watch = {},
    Memory* memory = nullptr);

// The result expected of `world` ranks. Loss scaling is left out: it should have no effect.
[[nodiscard]] Outcome train_single_rank(uint32_t world, const Training& training);

}  // namespace paro::toy
