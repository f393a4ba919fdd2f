// A rule's values for one step: the constants of its arithmetic. Pure.
//
// Computed in double precision and rounded to fp32 once, so that the kernels hold no constant
// arithmetic, and every rank has the same constants. What depends on the step is computed by
// src/device/kernels/step_arithmetic.hpp: a device has the step's number in its own memory.
#pragma once

#include <cstdint>

#include "optim/optimizer.hpp"

namespace paro {

// w = decay w - step_size m / (sqrt(v) + epsilon), after m and v were brought up to date. Both bias
// corrections are in step_size and epsilon: dividing sqrt(v / c) + epsilon by sqrt(1 / c) leaves
// sqrt(v) + epsilon sqrt(c), which spares each element a multiplication.
struct AdamWFactors {
  float decay;
  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;
  float step_size;
  float epsilon;
};

struct SgdFactors {
  float learning_rate;
  float momentum;
  float weight_decay;
};

[[nodiscard]] AdamWFactors factors_of(const AdamW& rule, uint64_t step);
[[nodiscard]] SgdFactors factors_of(const Sgd& rule);

}  // namespace paro
