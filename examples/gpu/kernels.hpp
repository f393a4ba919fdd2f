// What the model computes, one element or one row by one thread: functions of the device, and of
// the host, so that they can be tried without a GPU. Nothing here knows of libparo. They are as
// plain as can be: a real trainer has cuBLAS and better kernels in their place.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define GPU_FUNCTION __host__ __device__ inline
#else
#define GPU_FUNCTION inline
#endif

namespace example {

// Memory of the device that a kernel reads; and that it may write.
template <class T>
struct Input {
  const T* data = nullptr;
  uint32_t count = 0;
  GPU_FUNCTION const T& operator[](uint32_t i) const { return data[i]; }
};
template <class T>
struct Array {
  T* data = nullptr;
  uint32_t count = 0;
  GPU_FUNCTION T& operator[](uint32_t i) const { return data[i]; }
  GPU_FUNCTION operator Input<T>() const { return {data, count}; }  // NOLINT: as T* to const T*
  GPU_FUNCTION Array part(uint32_t first, uint32_t elements) const {
    return {data + first, elements};
  }
};
using Floats = Array<float>;
using FloatInput = Input<float>;
using Tokens = Input<uint32_t>;

// A thread for each element of x.
GPU_FUNCTION void embed(uint32_t i, Floats x, FloatInput table, Tokens tokens, uint32_t width) {
  x[i] = table[tokens[i / width] * width + i % width];
}

// A thread for each element of the table.
GPU_FUNCTION void embed_backward(
    uint32_t i, Floats table, FloatInput slopes, Tokens tokens, uint32_t width) {
  float sum = 0;
  for (uint32_t row = 0; row < tokens.count; ++row) {
    sum += tokens[row] == i / width ? slopes[row * width + i % width] : 0;
  }
  table[i] += sum;
}

// y = x weights^T + bias: a thread for each element of y. The bias follows the weights.
GPU_FUNCTION void linear(uint32_t i, Floats y, FloatInput x, FloatInput weights, uint32_t inputs) {
  const uint32_t outputs = weights.count / (inputs + 1);
  const uint32_t output = i % outputs;
  float sum = weights[outputs * inputs + output];
  for (uint32_t k = 0; k < inputs; ++k) {
    sum += x[i / outputs * inputs + k] * weights[output * inputs + k];
  }
  y[i] = sum;
}

// A thread for each weight, and for each element of the bias.
GPU_FUNCTION void linear_backward(
    uint32_t i, Floats gradients, FloatInput slopes, FloatInput x, uint32_t inputs) {
  const uint32_t outputs = gradients.count / (inputs + 1);
  const bool of_bias = i >= outputs * inputs;
  const uint32_t output = of_bias ? i - outputs * inputs : i / inputs;
  float sum = 0;
  for (uint32_t row = 0; row < slopes.count / outputs; ++row) {
    const float seen = of_bias ? 1.0F : x[row * inputs + i % inputs];
    sum += slopes[row * outputs + output] * seen;
  }
  gradients[i] += sum;
}

// What x adds to the loss: a thread for each element of x. `add`: to what is there already.
GPU_FUNCTION void linear_input(
    uint32_t i, Floats x_slopes, FloatInput slopes, FloatInput weights, uint32_t inputs, bool add) {
  const uint32_t outputs = weights.count / (inputs + 1);
  float sum = add ? x_slopes[i] : 0;
  for (uint32_t output = 0; output < outputs; ++output) {
    sum += slopes[i / inputs * outputs + output] * weights[output * inputs + i % inputs];
  }
  x_slopes[i] = sum;
}

// y = x + tanh(hidden); keeps the tanh.
GPU_FUNCTION void add_tanh(uint32_t i, Floats y, Floats hidden, FloatInput x) {
  hidden[i] = std::tanh(hidden[i]);
  y[i] = x[i] + hidden[i];
}

GPU_FUNCTION void tanh_backward(uint32_t i, Floats slopes, FloatInput y_slopes, FloatInput hidden) {
  slopes[i] = y_slopes[i] * (1 - hidden[i] * hidden[i]);
}

// A thread for each row. Leaves the slopes of the mean loss times `scale` where the logits were.
GPU_FUNCTION void cross_entropy(
    uint32_t row, Floats logits, Floats losses, Tokens targets, float scale) {
  const uint32_t classes = logits.count / targets.count;
  const Floats mine = logits.part(row * classes, classes);
  float most = mine[0];
  for (uint32_t k = 1; k < classes; ++k) {
    most = std::fmax(most, mine[k]);
  }
  float sum = 0;
  for (uint32_t k = 0; k < classes; ++k) {
    sum += std::exp(mine[k] - most);
  }
  losses[row] = std::log(sum) + most - mine[targets[row]];
  for (uint32_t k = 0; k < classes; ++k) {
    const float probability = std::exp(mine[k] - most) / sum;
    mine[k] = (probability - (k == targets[row] ? 1.0F : 0.0F)) * scale /
              static_cast<float>(targets.count);
  }
}

// What a program on one GPU needs beside the model, and libparo brings.
struct AdamW {
  float learning_rate = 0.01F;
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
};

GPU_FUNCTION void zero(uint32_t i, Floats values) {
  values[i] = 0;
}

// One thread.
GPU_FUNCTION void add_squares(uint32_t /*i*/, Floats sum, FloatInput values) {
  for (uint32_t i = 0; i < values.count; ++i) {
    sum[0] += values[i] * values[i];
  }
}

GPU_FUNCTION void adamw(uint32_t i,
                        Floats parameters,
                        FloatInput gradients,
                        Floats momentum,
                        Floats variance,
                        AdamW rule,
                        uint32_t step) {
  const float gradient = gradients[i];
  momentum[i] += (1 - rule.beta1) * (gradient - momentum[i]);
  variance[i] += (1 - rule.beta2) * (gradient * gradient - variance[i]);
  const auto power = static_cast<float>(step);
  const float mean = momentum[i] / (1 - std::pow(rule.beta1, power));
  const float spread = std::sqrt(variance[i] / (1 - std::pow(rule.beta2, power)));
  parameters[i] -=
      rule.learning_rate * (mean / (spread + rule.epsilon) + rule.weight_decay * parameters[i]);
}

}  // namespace example
