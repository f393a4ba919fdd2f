#include "run/step_sums.hpp"

#include <vector>

#include "catch.hpp"

using paro::StepSums;

namespace {

// As an all-reduce adds them.
StepSums summed(const std::vector<double>& rates) {
  StepSums sums;
  for (const double rate : rates) {
    StepSums one(2.0, 1, rate);
    for (size_t i = 0; i < StepSums::kCount; ++i) {
      sums.data()[i] += one.data()[i];
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("ranks with one rate agree on it, whatever it is") {
  for (const double rate : {0.0, 1e-300, 0.1, 3e-4, 1e300, -1.0}) {
    for (const size_t ranks : {1U, 3U, 1000U}) {
      StepSums sums = summed(std::vector<double>(ranks, rate));
      CHECK(sums.all_have_rate(rate, static_cast<uint32_t>(ranks)));
      CHECK(sums.squared_norm() == 2.0 * static_cast<double>(ranks));
      CHECK(sums.not_finite() > 0);
    }
  }
}

TEST_CASE("where rates differ every rank notices, also the one in the middle") {
  for (const auto& rates : std::vector<std::vector<double>>{{0.1, 0.1, 0.10000000000000002},
                                                            {1.0, 2.0, 3.0},
                                                            {0.0, -0.0},
                                                            {1e-3, 2e-3, 2e-3, 3e-3}}) {
    const StepSums sums = summed(rates);
    for (const double rate : rates) {
      CAPTURE(rate);
      CHECK_FALSE(sums.all_have_rate(rate, static_cast<uint32_t>(rates.size())));
    }
  }
}
