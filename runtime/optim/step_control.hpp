// A step as its updates see it: what gradients sum up to, and what that decides. Pure. The values
// and the arithmetic are those of devices, so that both have the same bits.
#pragma once

#include <optional>

#include "device/kernels/step_arithmetic.hpp"

namespace paro {

using ho::device::GradientSums;
using ho::device::StepControl;
using ho::device::StepLimits;
using ho::device::StepVotes;

// Makes of the sums whether the step is taken, its number, and what its updates need.
void decide(const StepLimits& limits, StepControl& control);

// The index of the first number that is not finite.
[[nodiscard]] inline std::optional<uint64_t> first_not_finite_of(const GradientSums& sums) {
  return sums.first_from_last == 0 ? std::nullopt
                                   : std::optional(ho::device::kLastIndex - sums.first_from_last);
}

}  // namespace paro
