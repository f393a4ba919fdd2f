#include "optim/factors.hpp"

#include "optim/step_control.hpp"

namespace paro {

AdamWFactors factors_of(const AdamW& rule, uint64_t step) {
  const auto corrections = ho::device::corrections_of(rule.beta1, rule.beta2, step);
  return {
      .decay = static_cast<float>(1 - rule.learning_rate * rule.weight_decay),
      .beta1 = static_cast<float>(rule.beta1),
      .rest1 = static_cast<float>(1 - rule.beta1),
      .beta2 = static_cast<float>(rule.beta2),
      .rest2 = static_cast<float>(1 - rule.beta2),
      .step_size = ho::device::corrected_rate(rule.learning_rate, corrections),
      .epsilon = ho::device::corrected_epsilon(rule.epsilon, corrections),
  };
}

SgdFactors factors_of(const Sgd& rule) {
  return {
      .learning_rate = static_cast<float>(rule.learning_rate),
      .momentum = static_cast<float>(rule.momentum),
      .weight_decay = static_cast<float>(rule.weight_decay),
  };
}

void decide(const StepLimits& limits, StepControl& control) {
  ho::device::decide(limits, control);
}

}  // namespace paro
