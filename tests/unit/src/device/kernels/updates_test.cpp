// Fused steps of the rules against runtime/optim, bit for bit, and AdamW's against the formula in
// double. What a step does is in a control, as decide() makes it.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "catch.hpp"
#include "device/kernels/arguments.hpp"
#include "optim/factors.hpp"
#include "optim/gradients.hpp"
#include "optim/optimizer.hpp"
#include "optim/step_control.hpp"
#include "subjects.hpp"

namespace {

using ho::DType;
using ho::device::AdamWArguments;
using ho::device::ParameterKind;
using ho::device::SgdArguments;
using ho::device::StepControl;
using ho::device::UpdateArguments;
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

StepControl control_of(double factor, uint64_t step) {
  StepControl control;
  control.sums.squared = 1;
  control.steps = step - 1;
  paro::decide({factor, 0, kRule.beta1, kRule.beta2}, control);
  return control;
}

UpdateArguments update_of(State& state, const void* gradient, const StepControl& control) {
  return {.control = reinterpret_cast<uint64_t>(&control),
          .master = reinterpret_cast<uint64_t>(state.arrays[0].data()),
          .gradient = reinterpret_cast<uint64_t>(gradient),
          .parameter = 0,
          .elements = state.arrays[0].size(),
          .parameter_kind = ParameterKind::kNone};
}

AdamWArguments arguments_of(State& state, const void* gradient, const StepControl& control) {
  const paro::AdamWFactors factors = paro::factors_of(kRule, 1);
  return {.update = update_of(state, gradient, control),
          .momentum = reinterpret_cast<uint64_t>(state.arrays[1].data()),
          .variance = reinterpret_cast<uint64_t>(state.arrays[2].data()),
          .learning_rate = kRule.learning_rate,
          .epsilon = kRule.epsilon,
          .decay = factors.decay,
          .beta_1 = factors.beta1,
          .rest_1 = factors.rest1,
          .beta_2 = factors.beta2,
          .rest_2 = factors.rest2};
}

bool same(const State& a, const State& b) {
  bool all = true;
  for (size_t array = 0; array < a.arrays.size(); ++array) {
    all = all && std::memcmp(a.arrays[array].data(),
                             b.arrays[array].data(),
                             a.arrays[array].size() * sizeof(float)) == 0;
  }
  return all;
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
      const StepControl control = control_of(static_cast<double>(kScale), step);
      run_kernel(type.kernel, arguments_of(got, gradient.data(), control));
      CHECK(same(got, want));
    }
  }
}

TEST_CASE("an SGD step has the bits of the runtime's on a host, with momentum and without") {
  constexpr size_t kCount = 10'003;
  for (const GradientType& type : kGradientTypes) {
    const std::vector<float> gradient = gradients(type.dtype, kCount);
    for (const double momentum : {0.0, 0.9}) {
      const paro::Sgd rule{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01};
      State want(kCount, 1);
      State got(kCount, 1);
      for (uint64_t step = 1; step < 4; ++step) {
        const double factor = 1.0 / static_cast<double>(step);
        std::vector<float> unscaled(kCount);
        paro::unscale(type.dtype, gradient.data(), factor, unscaled);
        paro::update(
            rule,
            step,
            {.master = want.arrays[0], .state = {want.arrays[1], {}}, .gradient = unscaled});
        const StepControl control = control_of(factor, step);
        const paro::SgdFactors factors = paro::factors_of(rule);
        run_kernel(
            std::string("ho_sgd_") + (type.kernel + sizeof "ho_adamw_" - 1),
            SgdArguments{
                .update = update_of(got, gradient.data(), control),
                .velocity = momentum == 0 ? 0 : reinterpret_cast<uint64_t>(got.arrays[1].data()),
                .learning_rate = factors.learning_rate,
                .momentum = factors.momentum,
                .weight_decay = factors.weight_decay});
        CHECK(same(got, want));
      }
    }
  }
}

TEST_CASE("a step that is left out touches no state and does not count") {
  constexpr size_t kCount = 100;
  const std::vector<float> gradient(kCount, 1);
  const State before(kCount, 2);
  for (const ho::device::GradientSums& sums :
       {ho::device::GradientSums{1, 1, 0, 0},
        ho::device::GradientSums{std::numeric_limits<double>::infinity(), 0, 0, 0},
        ho::device::GradientSums{std::nan(""), 0, 0, 0}}) {
    State after = before;
    StepControl control = control_of(1, 5);
    control.sums = sums;
    paro::decide({1, 0, kRule.beta1, kRule.beta2}, control);
    CHECK(control.left_out != 0);
    CHECK(control.steps == 5);
    run_kernel("ho_adamw_float32", arguments_of(after, gradient.data(), control));
    run_kernel("ho_sgd_float32",
               SgdArguments{.update = update_of(after, gradient.data(), control),
                            .velocity = reinterpret_cast<uint64_t>(after.arrays[1].data()),
                            .learning_rate = 1,
                            .momentum = 1,
                            .weight_decay = 1});
    CHECK(same(after, before));
  }
}

TEST_CASE("a decision clips by the norm of the averages") {
  StepControl control;
  control.sums = {16, 0, 0, 0};
  paro::decide({0.5, 1, 0, 0}, control);
  CHECK(control.left_out == 0);
  CHECK(control.norm == 4);
  CHECK(control.factor == 0.125);
  CHECK(control.steps == 1);
  paro::decide({0.5, 0, 0, 0}, control);
  CHECK(control.factor == 0.5);
  CHECK(control.steps == 2);
}

TEST_CASE("bias corrections are those of powers, however large the step") {
  for (const uint64_t step : {1ULL, 2ULL, 3ULL, 1000ULL, 54321ULL, 1'000'000'000ULL}) {
    for (const double beta : {0.0, 0.5, 0.9, 0.999, 0.9999999}) {
      const double want = std::pow(beta, static_cast<double>(step));
      CHECK(std::fabs(ho::device::power(beta, step) - want) <=
            3e-16 * static_cast<double>(step) * want + 1e-300);  // each squaring doubles the error
    }
  }
}

TEST_CASE("an AdamW step is that of the formula in double precision") {
  constexpr size_t kCount = 1000;
  constexpr uint64_t kStep = 5;
  const std::vector<float> gradient = gradients(DType::kFloat32, kCount);
  const State before(kCount, 2);
  State after = before;
  const StepControl control = control_of(2, kStep);
  run_kernel("ho_adamw_float32", arguments_of(after, gradient.data(), control));
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
    const StepControl control = control_of(1, 1);
    AdamWArguments arguments = arguments_of(state, gradient.data(), control);
    arguments.update.parameter = parameter.address();
    arguments.update.parameter_kind = type.kind;
    run_kernel("ho_adamw_bfloat16", arguments);
    Elements want(ho::size_bytes(type.dtype), kCount);
    paro::round_to(type.dtype, state.arrays[0], want.data());
    CHECK(std::memcmp(parameter.data(), want.data(), kCount * ho::size_bytes(type.dtype)) == 0);
  }
}
