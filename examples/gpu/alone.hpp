// Training on one GPU, as it is before libparo comes: compare with sharded.hpp.
#pragma once

#include <cmath>
#include <vector>

#include "model.hpp"

namespace example {

struct Unit {
  Floats parameters;
  Floats gradients;
  Floats momentum;
  Floats variance;
};

// The loss of each step.
template <class Gpu>
std::vector<float> train_alone(Gpu& gpu, const Settings& settings) {
  Model model(gpu, settings);
  std::vector<Unit> units(model.units());
  for (uint32_t u = 0; u < model.units(); ++u) {
    for (Floats* const each :
         {&units[u].parameters, &units[u].gradients, &units[u].momentum, &units[u].variance}) {
      *each = gpu.template allocate<float>(model.elements(u));
      gpu.template launch<zero>(each->count, *each);
    }
    gpu.upload(units[u].parameters, model.initial(u));
  }
  const Floats squares = gpu.template allocate<float>(1);
  Progress progress;
  std::vector<float> losses;
  for (uint32_t step = 0; step < settings.steps; ++step) {
    model.read_data(step * settings.micro_batches, 1);
    for (uint32_t m = 0; m < settings.micro_batches; ++m) {
      for (uint32_t u = 0; u < model.units(); ++u) {
        model.forward(u, m, units[u].parameters);
      }
      for (uint32_t u = model.units(); u-- > 0;) {
        const float scale = 1.0F / static_cast<float>(settings.micro_batches);
        model.backward(u, m, units[u].parameters, units[u].gradients, scale);
      }
    }
    gpu.template launch<zero>(1, squares);
    for (const Unit& unit : units) {
      gpu.template launch<add_squares>(1, squares, unit.gradients);
      gpu.template launch<adamw>(unit.parameters.count,
                                 unit.parameters,
                                 unit.gradients,
                                 unit.momentum,
                                 unit.variance,
                                 settings.rule,
                                 step + 1);
      gpu.template launch<zero>(unit.gradients.count, unit.gradients);
    }
    const double norm = std::sqrt(gpu.download(squares)[0]);
    losses.push_back(model.mean_loss());
    progress.print(step + 1, losses.back(), norm, settings.micro_batches * settings.tokens);
  }
  return losses;
}

}  // namespace example
