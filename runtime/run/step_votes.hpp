// What a rank gives to the sum over all ranks that ends a step, beside what its gradients sum up
// to.
#pragma once

#include "optim/step_control.hpp"
#include "step/traffic.hpp"

namespace paro {

// Numbers of the row that is summed: the votes, and the first two of GradientSums behind them.
inline constexpr size_t kAgreeNumbers = sizeof(StepVotes) / sizeof(double) + 2;
static_assert(kAgreeNumbers * sizeof(double) == kAgreeBytes);
static_assert(offsetof(StepControl, sums) == sizeof(StepVotes));

[[nodiscard]] inline StepVotes votes_of(double learning_rate,
                                        bool signals = false,
                                        bool loaded = false,
                                        bool discards = false) {
  StepVotes votes{.rate = {},
                  .signals = signals ? 1.0 : 0.0,
                  .loaded = loaded ? 1.0 : 0.0,
                  .discards = discards ? 1.0 : 0.0};
  for (unsigned part = 0; part < ho::device::kRateParts; ++part) {
    const double number = ho::device::rate_part(learning_rate, part);
    votes.rate[part] = number;
    votes.rate[ho::device::kRateParts + part] = number * number;
  }
  return votes;
}

}  // namespace paro
