// What the ranks sum up before each step, so that all decide the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "step/traffic.hpp"

namespace paro {

class StepSums {
 public:
  StepSums() = default;
  StepSums(double squared_norm,
           double not_finite,
           double learning_rate,
           bool signals = false,
           bool loaded = false,
           bool discards = false);

  // Sent as they are; each is summed over the world.
  [[nodiscard]] double* data() { return values_.data(); }
  static constexpr size_t kNorm = 0;
  static constexpr size_t kNotFinite = 1;
  static constexpr size_t kRate = 2;
  static constexpr size_t kSignals = 10;
  static constexpr size_t kLoaded = 11;
  static constexpr size_t kDiscards = 12;
  static constexpr size_t kCount = 13;

  // Of the sums. squared norm of all gradients:
  [[nodiscard]] double squared_norm() const { return values_[kNorm]; }
  [[nodiscard]] double not_finite() const { return values_[kNotFinite]; }
  [[nodiscard]] bool any_signals() const { return values_[kSignals] != 0; }
  [[nodiscard]] bool any_loaded() const { return values_[kLoaded] != 0; }
  // Ranks that drop the step instead of ending it.
  [[nodiscard]] double discards() const { return values_[kDiscards]; }
  // Whether all `ranks` had this rate, bit for bit: where one had not, no rank gets true.
  [[nodiscard]] bool all_have_rate(double learning_rate, uint32_t ranks) const;

 private:
  std::array<double, kCount> values_{};
};
static_assert(sizeof(StepSums) == kAgreeBytes);

}  // namespace paro
