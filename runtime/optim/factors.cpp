#include "optim/factors.hpp"

#include <cmath>

namespace paro {

AdamWFactors factors_of(const AdamW& rule, uint64_t step) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(rule.beta1, t);
  const double root_correction2 = std::sqrt(1 - std::pow(rule.beta2, t));
  return {
      .decay = static_cast<float>(1 - rule.learning_rate * rule.weight_decay),
      .beta1 = static_cast<float>(rule.beta1),
      .rest1 = static_cast<float>(1 - rule.beta1),
      .beta2 = static_cast<float>(rule.beta2),
      .rest2 = static_cast<float>(1 - rule.beta2),
      .step_size = static_cast<float>(rule.learning_rate * root_correction2 / correction1),
      .epsilon = static_cast<float>(rule.epsilon * root_correction2),
  };
}

SgdFactors factors_of(const Sgd& rule) {
  return {
      .learning_rate = static_cast<float>(rule.learning_rate),
      .momentum = static_cast<float>(rule.momentum),
      .weight_decay = static_cast<float>(rule.weight_decay),
  };
}

}  // namespace paro
