// The fused AdamW step against runtime/optim, bit for bit, and against the formula in double.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "catch.hpp"
#include "device/kernels/arguments.hpp"
#include "optim/factors.hpp"
#include "optim/gradients.hpp"
#include "optim/optimizer.hpp"
#include "subjects.hpp"

namespace {

using ho::DType;
using ho::device::AdamWArguments;
using ho::device::ParameterKind;
using ho::test::Elements;
using ho::test::run_kernel;

constexpr paro::AdamW kRule = {.learning_rate = 3e-3, .weight_decay = 0.1};

// A parameter tensor: master, momentum and variance.
struct State {
  std::array<std::vector<float>, 3> arrays;
  explicit State(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (auto& array : arrays) {
      array.resize(count);
      for (float& value : array) {
        value = normal(random);
      }
    }
    for (float& value : arrays[2]) {
      value = value * value;
    }
  }
};

std::vector<float> gradients(DType dtype, size_t count) {
  State random(count, 7);
  paro::round_in_place(dtype, random.arrays[0].data(), count);
  return random.arrays[0];
}

AdamWArguments arguments_of(State& state, const void* gradient, float scale, uint64_t step) {
  const paro::AdamWFactors factors = paro::factors_of(kRule, step);
  return {.master = reinterpret_cast<uint64_t>(state.arrays[0].data()),
          .momentum = reinterpret_cast<uint64_t>(state.arrays[1].data()),
          .variance = reinterpret_cast<uint64_t>(state.arrays[2].data()),
          .gradient = reinterpret_cast<uint64_t>(gradient),
          .parameter = 0,
          .elements = state.arrays[0].size(),
          .parameter_kind = 0,
          .gradient_scale = scale,
          .decay = factors.decay,
          .beta_1 = factors.beta1,
          .rest_1 = factors.rest1,
          .beta_2 = factors.beta2,
          .rest_2 = factors.rest2,
          .step_size = factors.step_size,
          .epsilon = factors.epsilon};
}

struct GradientType {
  DType dtype;
  const char* kernel;
};
constexpr GradientType kGradientTypes[] = {{DType::kFloat32, "ho_adamw_float32"},
                                           {DType::kFloat16, "ho_adamw_float16"},
                                           {DType::kBfloat16, "ho_adamw_bfloat16"}};

}  // namespace

TEST_CASE("an AdamW step has the bits of the runtime's on a host") {
  constexpr size_t kCount = 10'003;
  constexpr float kScale = 1.0F / 3;
  for (const GradientType& type : kGradientTypes) {
    const std::vector<float> gradient = gradients(type.dtype, kCount);
    State want(kCount, 1);
    State got(kCount, 1);
    for (const uint64_t step : {1ULL, 2ULL, 1000ULL}) {
      std::vector<float> unscaled(kCount);
      paro::unscale(type.dtype, gradient.data(), static_cast<double>(kScale), unscaled);
      paro::update(kRule,
                   step,
                   {.master = want.arrays[0],
                    .state = {want.arrays[1], want.arrays[2]},
                    .gradient = unscaled});
      run_kernel(type.kernel, arguments_of(got, gradient.data(), kScale, step));
      for (size_t array = 0; array < 3; ++array) {
        CHECK(std::memcmp(got.arrays[array].data(),
                          want.arrays[array].data(),
                          kCount * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("an AdamW step is that of the formula in double precision") {
  constexpr size_t kCount = 1000;
  constexpr uint64_t kStep = 5;
  const std::vector<float> gradient = gradients(DType::kFloat32, kCount);
  const State before(kCount, 2);
  State after = before;
  run_kernel("ho_adamw_float32", arguments_of(after, gradient.data(), 2, kStep));
  const double t = kStep;
  for (size_t i = 0; i < kCount; ++i) {
    const double g = 2 * static_cast<double>(gradient[i]);
    const double w = static_cast<double>(before.arrays[0][i]);
    const double m = kRule.beta1 * static_cast<double>(before.arrays[1][i]) + (1 - kRule.beta1) * g;
    const double v =
        kRule.beta2 * static_cast<double>(before.arrays[2][i]) + (1 - kRule.beta2) * g * g;
    const double direction = m / (1 - std::pow(kRule.beta1, t)) /
                             (std::sqrt(v / (1 - std::pow(kRule.beta2, t))) + kRule.epsilon);
    const double want = w - kRule.learning_rate * (kRule.weight_decay * w + direction);
    CHECK(std::fabs(static_cast<double>(after.arrays[0][i]) - want) <= 2e-7 * (std::fabs(w) + 1));
    CHECK(std::fabs(static_cast<double>(after.arrays[1][i]) - m) <= 3e-7 * (std::fabs(m) + 1));
    CHECK(std::fabs(static_cast<double>(after.arrays[2][i]) - v) <= 3e-7 * (v + 1));
  }
}

TEST_CASE("the parameter is the master rounded to its type") {
  constexpr size_t kCount = 1027;
  const std::vector<float> gradient = gradients(DType::kBfloat16, kCount);
  const struct {
    ParameterKind kind;
    DType dtype;
  } types[] = {{ParameterKind::kFloat32, DType::kFloat32},
               {ParameterKind::kFloat16, DType::kFloat16},
               {ParameterKind::kBfloat16, DType::kBfloat16}};
  for (const auto& type : types) {
    State state(kCount, 3);
    Elements parameter(ho::size_bytes(type.dtype), kCount);
    AdamWArguments arguments = arguments_of(state, gradient.data(), 1, 1);
    arguments.parameter = parameter.address();
    arguments.parameter_kind = static_cast<uint32_t>(type.kind);
    run_kernel("ho_adamw_bfloat16", arguments);
    Elements want(ho::size_bytes(type.dtype), kCount);
    paro::round_to(type.dtype, state.arrays[0], want.data());
    CHECK(std::memcmp(parameter.data(), want.data(), kCount * ho::size_bytes(type.dtype)) == 0);
  }
}
