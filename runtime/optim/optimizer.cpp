// The rules' kernels and what chooses between them. One loop shape serves every rule: a vector's
// worth of elements at a time; the last, partial vector goes through a buffer on the stack, so that
// it sees the same instructions. No operation here multiplies and adds in one, and this library is
// compiled without contraction (runtime/meson.build): a fused one rounds once where two separate
// ones round twice, and only some instruction sets have it.
//
// This file is compiled once per instruction set (foreach_target.h includes it again); the best one
// the processor has is chosen at the first call.
#include "optim/optimizer.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/optimizer.cpp"  // NOLINT(bugprone-macro-parentheses): a file name
#include <hwy/foreach_target.h>
// After foreach_target.h, which decides for which instruction set these are compiled.
#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

#include "optim/bounds.hpp"
#include "optim/factors.hpp"

HWY_BEFORE_NAMESPACE();
namespace paro::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// A rule's kernel: what it writes (the master, then its state) lies in kArrays arrays.
struct AdamWKernel {
  static constexpr size_t kArrays = 3;
  AdamWFactors factors;

  HWY_INLINE void operator()(const std::array<float*, kArrays>& at,
                             size_t i,
                             const float* gradient) const {
    const Tag tag;
    const auto g = hn::LoadU(tag, gradient + i);
    const auto m = hn::Add(hn::Mul(hn::Set(tag, factors.beta1), hn::LoadU(tag, at[1] + i)),
                           hn::Mul(hn::Set(tag, factors.rest1), g));
    const auto v = hn::Add(hn::Mul(hn::Set(tag, factors.beta2), hn::LoadU(tag, at[2] + i)),
                           hn::Mul(hn::Set(tag, factors.rest2), hn::Mul(g, g)));
    const auto below = hn::Add(hn::Sqrt(v), hn::Set(tag, factors.epsilon));
    const auto change = hn::Div(hn::Mul(hn::Set(tag, factors.step_size), m), below);
    const auto kept = hn::Mul(hn::Set(tag, factors.decay), hn::LoadU(tag, at[0] + i));
    hn::StoreU(hn::Sub(kept, change), tag, at[0] + i);
    hn::StoreU(m, tag, at[1] + i);
    hn::StoreU(v, tag, at[2] + i);
  }
};

template <bool kMomentum>
struct SgdKernel {
  static constexpr size_t kArrays = kMomentum ? 2 : 1;
  SgdFactors factors;

  HWY_INLINE void operator()(const std::array<float*, kArrays>& at,
                             size_t i,
                             const float* gradient) const {
    const Tag tag;
    const auto w = hn::LoadU(tag, at[0] + i);
    auto v = hn::Add(hn::LoadU(tag, gradient + i), hn::Mul(hn::Set(tag, factors.weight_decay), w));
    if constexpr (kMomentum) {
      v = hn::Add(hn::Mul(hn::Set(tag, factors.momentum), hn::LoadU(tag, at[1] + i)), v);
      hn::StoreU(v, tag, at[1] + i);
    }
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(tag, factors.learning_rate), v)), tag, at[0] + i);
  }
};

template <class Kernel>
void each_vector(Kernel kernel,
                 std::array<float*, Kernel::kArrays> arrays,
                 const float* gradient,
                 size_t count) {
  const Tag tag;
  const size_t width = hn::Lanes(tag);
  size_t i = 0;
  for (; i + width <= count; i += width) {
    kernel(arrays, i, gradient);
  }
  const size_t rest = count - i;
  if (rest == 0) {
    return;
  }
  constexpr size_t kMax = hn::MaxLanes(Tag());
  float parts[Kernel::kArrays + 1][kMax] = {};
  std::array<float*, Kernel::kArrays> part_of{};
  for (size_t a = 0; a < Kernel::kArrays; ++a) {
    part_of[a] = parts[a];
    std::memcpy(parts[a], arrays[a] + i, rest * sizeof(float));
  }
  float* const gradient_part = parts[Kernel::kArrays];
  std::memcpy(gradient_part, gradient + i, rest * sizeof(float));
  kernel(part_of, 0, gradient_part);
  for (size_t a = 0; a < Kernel::kArrays; ++a) {
    std::memcpy(arrays[a] + i, parts[a], rest * sizeof(float));
  }
}

void adamw(const AdamWFactors& factors, const Elements& e) {
  each_vector(AdamWKernel{factors},
              {e.master.data(), e.state[0].data(), e.state[1].data()},
              e.gradient.data(),
              e.gradient.size());
}

void sgd(const SgdFactors& factors, bool momentum, const Elements& e) {
  if (momentum) {
    each_vector(SgdKernel<true>{factors},
                {e.master.data(), e.state[0].data()},
                e.gradient.data(),
                e.gradient.size());
  } else {
    each_vector(SgdKernel<false>{factors}, {e.master.data()}, e.gradient.data(), e.gradient.size());
  }
}

}  // namespace paro::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paro {

HWY_EXPORT(adamw);
HWY_EXPORT(sgd);

namespace {

// Products of settings, and their fp32 forms, stay far from overflow inside these.
constexpr Bounds kRate{.least = 0, .most = 1e6};
constexpr Bounds kFraction{.least = 0, .most = 1, .most_excluded = true};
// Smaller ones vanish in fp32, and an element that never had a gradient would be 0 / 0.
constexpr Bounds kEpsilon{.least = 1e-30, .most = 1e6};

ho::Status check_adamw(const AdamW& rule) {
  HORING_TRY(check_bounds("AdamW", "learning_rate", rule.learning_rate, kRate));
  HORING_TRY(check_bounds("AdamW", "beta1", rule.beta1, kFraction));
  HORING_TRY(check_bounds("AdamW", "beta2", rule.beta2, kFraction));
  HORING_TRY(check_bounds("AdamW", "epsilon", rule.epsilon, kEpsilon));
  return check_bounds("AdamW", "weight_decay", rule.weight_decay, kRate);
}

ho::Status check_sgd(const Sgd& rule) {
  HORING_TRY(check_bounds("Sgd", "learning_rate", rule.learning_rate, kRate));
  HORING_TRY(check_bounds("Sgd", "momentum", rule.momentum, kFraction));
  return check_bounds("Sgd", "weight_decay", rule.weight_decay, kRate);
}

}  // namespace

std::string_view to_string(const Rule& rule) {
  return std::holds_alternative<AdamW>(rule) ? "AdamW" : "Sgd";
}

ho::Status check(const Rule& rule) {
  if (const auto* const chosen = std::get_if<AdamW>(&rule)) {
    return check_adamw(*chosen);
  }
  return check_sgd(std::get<Sgd>(rule));
}

uint32_t state_count(const Rule& rule) {
  if (const auto* const chosen = std::get_if<Sgd>(&rule)) {
    return chosen->momentum != 0 ? 1 : 0;
  }
  return 2;
}

void update(const Rule& rule, uint64_t step, const Elements& elements) {
  if (elements.gradient.empty()) {
    return;
  }
  if (const auto* const chosen = std::get_if<AdamW>(&rule)) {
    HWY_DYNAMIC_DISPATCH(adamw)(factors_of(*chosen, step), elements);
  } else {
    const auto& descent = std::get<Sgd>(rule);
    HWY_DYNAMIC_DISPATCH(sgd)(factors_of(descent), state_count(rule) > 0, elements);
  }
}

}  // namespace paro
#endif  // HWY_ONCE
