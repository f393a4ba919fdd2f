// How a step changes parameters: the rules, their settings, and their arithmetic on spans.
//
// A rule works on masters, fp32 copies of the parameters: an update is often too small to show in
// the 16 bits that a framework computes with. Beside each master it keeps some numbers of state,
// fp32 too, which begin as zeros.
//
// The strategy decides which rank owns which elements, and a rule's result must not depend on it.
// Each element sees the same additions, multiplications, divisions and square roots, each rounded
// once, wherever it lies in a span and whatever instruction set runs. Cutting a span in two, or
// giving it to a rank with another processor, changes no bit. Nothing here checks for infinities
// and NaN: whether a step is taken at all is decided before (gradients.hpp, loss_scale.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/status.hpp"

namespace paro {

// Adam with decoupled weight decay. At step t, for master w, state m and v, gradient g:
//   m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g g
//   w = w - learning_rate (weight_decay w + (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
//   epsilon))
// The decay multiplies w before the rest is taken away, and does not pass through m and v.
struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  friend bool operator==(const AdamW&, const AdamW&) = default;
};

// Gradient descent with heavy-ball momentum and L2 decay, as frameworks define them: the decay is
// added to the gradient (so it does pass through the momentum), and the learning rate multiplies
// the whole velocity.
//   v = momentum v + (g + weight_decay w)        w = w - learning_rate v
struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;
  double weight_decay = 0;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

using Rule = std::variant<AdamW, Sgd>;

[[nodiscard]] std::string_view to_string(const Rule& rule);  // "AdamW"

// Ok, or the first setting that cannot work and what it may be.
[[nodiscard]] ho::Status check(const Rule& rule);

// fp32 numbers kept for each element beside its master: AdamW 2 (m, v), Sgd 1 (v) with momentum and
// 0 without.
inline constexpr uint32_t kMaxStates = 2;
[[nodiscard]] uint32_t state_count(const Rule& rule);

// Some elements, the same ones in every span; of `state`, the first state_count() spans are used.
struct Elements {
  std::span<float> master;
  std::array<std::span<float>, kMaxStates> state;
  std::span<const float> gradient;  // scaled: what the rule calls g
};

// One step of a rule that check() accepts. `step` counts from 1. No two spans may overlap; all have
// gradient.size() elements.
void update(const Rule& rule, uint64_t step, const Elements& elements);

}  // namespace paro
