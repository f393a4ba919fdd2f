// The same training on many GPUs: libparo holds parameters, gradients and the optimizer's state,
// and NCCL moves them. Compare with alone.hpp.
#pragma once

#include <paro.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "model.hpp"

namespace example {

inline void must(ho_status status) {
  if (status != HO_OK) {
    throw std::runtime_error(ho_last_error_message());  // libparo's errors too
  }
}

struct DestroyRunner {
  void operator()(paro_runner* runner) const { paro_runner_destroy(runner); }
};

inline FloatInput parameters_of(const paro_unit_view& view) {
  return {static_cast<const float*>(view.trained), static_cast<uint32_t>(view.trained_count)};
}
inline Floats gradients_of(const paro_unit_view& view) {
  return {static_cast<float*>(view.gradients), static_cast<uint32_t>(view.trained_count)};
}

// The loss of each step, over all ranks. `comm` has the device of `gpu`.
template <class Gpu>
std::vector<float> train_sharded(Gpu& gpu,
                                 ho_comm* comm,
                                 const char* strategy,
                                 const Settings& settings) {
  Model model(gpu, settings);
  std::vector<paro_unit> units;
  for (uint32_t u = 0; u < model.units(); ++u) {
    units.push_back({nullptr, model.elements(u), 0, nullptr});
  }
  const auto ranks = static_cast<uint32_t>(ho_comm_world_size(comm));
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const AdamW& rule = settings.rule;
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = strategy;
  options.micro_batches = settings.micro_batches;
  options.adamw = {rule.learning_rate, rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay};
  options.place = PARO_PLACE_DEVICE;
  options.collectives = PARO_COLLECTIVES_NCCL;
  options.stream = gpu.stream();
  paro_runner* made = nullptr;
  must(paro_runner_create(comm, &options, units.data(), units.size(), &made));
  const std::unique_ptr<paro_runner, DestroyRunner> owner(made);
  paro_runner* const runner = made;
  for (uint32_t u = 0; u < model.units(); ++u) {
    must(paro_runner_load(runner, u, model.initial(u).data(), model.elements(u), nullptr, 0));
  }
  Progress progress;
  std::vector<float> losses;
  for (uint32_t step = 0; step < settings.steps; ++step) {
    model.read_data(step * settings.micro_batches * ranks + rank, ranks);
    for (uint32_t m = 0; m < settings.micro_batches; ++m) {
      paro_unit_view view = PARO_UNIT_VIEW_INIT;
      for (uint32_t u = 0; u < model.units(); ++u) {
        must(paro_runner_before_forward(runner, u, &view));
        model.forward(u, m, parameters_of(view));
        must(paro_runner_after_forward(runner, u));
      }
      for (uint32_t u = model.units(); u-- > 0;) {
        must(paro_runner_before_backward(runner, u, &view));
        model.backward(u, m, parameters_of(view), gradients_of(view), 1);
        must(paro_runner_after_backward(runner, u));
      }
    }
    must(paro_runner_step(runner, nullptr));
    float loss = model.mean_loss() / static_cast<float>(ranks);
    must(ho_all_reduce(comm, &loss, &loss, 1, HO_FLOAT32, HO_SUM, nullptr, nullptr, nullptr));
    losses.push_back(loss);
    if (rank == 0) {
      paro_step_report report = PARO_STEP_REPORT_INIT;
      must(paro_runner_flush(runner, 0, &report));  // waits for this step's norm
      progress.print(step + 1, loss, report.norm, ranks * settings.micro_batches * settings.tokens);
    }
  }
  return losses;
}

}  // namespace example
