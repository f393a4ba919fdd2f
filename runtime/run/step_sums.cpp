// A rate is summed as four 16-bit numbers and their squares, which doubles hold exactly for a
// million ranks. If all n ranks have the number a, the sums are n a and n a^2; and sums of such
// values say that the variance is zero, so that a rank whose own number fits both knows that all
// are equal.
#include "run/step_sums.hpp"

#include <bit>

namespace paro {
namespace {

constexpr size_t kParts = 4;

double part_of(double rate, size_t part) {
  return static_cast<double>(std::bit_cast<uint64_t>(rate) >> (16 * part) & 0xffffU);
}

}  // namespace

StepSums::StepSums(double squared_norm,
                   double not_finite,
                   double learning_rate,
                   bool signals,
                   bool loaded,
                   bool discards)
    : values_{squared_norm, not_finite} {
  values_[kSignals] = signals ? 1 : 0;
  values_[kLoaded] = loaded ? 1 : 0;
  values_[kDiscards] = discards ? 1 : 0;
  for (size_t part = 0; part < kParts; ++part) {
    const double number = part_of(learning_rate, part);
    values_[kRate + part] = number;
    values_[kRate + kParts + part] = number * number;
  }
}

bool StepSums::all_have_rate(double learning_rate, uint32_t ranks) const {
  for (size_t part = 0; part < kParts; ++part) {
    const double number = part_of(learning_rate, part);
    if (values_[kRate + part] != ranks * number ||
        values_[kRate + kParts + part] != ranks * number * number) {
      return false;
    }
  }
  return true;
}

}  // namespace paro
