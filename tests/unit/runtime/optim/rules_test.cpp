// Settings of rules: which are refused, and with which words.
#include <cmath>
#include <limits>
#include <string>

#include "catch.hpp"
#include "optim/factors.hpp"
#include "optim/optimizer.hpp"

using paro::AdamW;
using paro::Rule;
using paro::Sgd;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string refusal(const Rule& rule) {
  const ho::Status status = paro::check(rule);
  CHECK(status.code() == ho::StatusCode::kInvalidArgument);
  return status.message();
}

}  // namespace

TEST_CASE("settings in their bounds are accepted") {
  CHECK(paro::check(AdamW{}).ok());
  CHECK(paro::check(AdamW{0, 0, 0, 1e-30, 0}).ok());
  CHECK(paro::check(AdamW{1e6, 0.9999999, 0.9999999, 1e6, 1e6}).ok());
  CHECK(paro::check(Sgd{}).ok());
  CHECK(paro::check(Sgd{0, 0, 0}).ok());
  CHECK(paro::check(Sgd{0.1, 0.999, 1e-4}).ok());
}

TEST_CASE("a setting out of its bounds is named with its value and what is allowed") {
  CHECK(refusal(AdamW{.beta1 = 1}) == "AdamW: beta1 is 1; allowed is [0, 1)");
  CHECK(refusal(AdamW{.beta2 = -0.5}) == "AdamW: beta2 is -0.5; allowed is [0, 1)");
  CHECK(refusal(AdamW{.epsilon = 0}) == "AdamW: epsilon is 0; allowed is [1e-30, 1000000]");
  CHECK(refusal(Sgd{.momentum = 1.5}) == "Sgd: momentum is 1.5; allowed is [0, 1)");
  CHECK(refusal(Sgd{.learning_rate = -1}) == "Sgd: learning_rate is -1; allowed is [0, 1000000]");
  CHECK(refusal(Sgd{.weight_decay = 2e6}) ==
        "Sgd: weight_decay is 2000000; allowed is [0, 1000000]");
}

TEST_CASE("no setting may be infinite or not a number") {
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    CHECK(refusal(AdamW{.learning_rate = bad}).find("learning_rate") != std::string::npos);
    CHECK(refusal(AdamW{.beta1 = bad}).find("beta1") != std::string::npos);
    CHECK(refusal(AdamW{.beta2 = bad}).find("beta2") != std::string::npos);
    CHECK(refusal(AdamW{.epsilon = bad}).find("epsilon") != std::string::npos);
    CHECK(refusal(AdamW{.weight_decay = bad}).find("weight_decay") != std::string::npos);
    CHECK(refusal(Sgd{.learning_rate = bad}).find("learning_rate") != std::string::npos);
    CHECK(refusal(Sgd{.momentum = bad}).find("momentum") != std::string::npos);
    CHECK(refusal(Sgd{.weight_decay = bad}).find("weight_decay") != std::string::npos);
  }
}

TEST_CASE("a rule says how many numbers it keeps beside a master") {
  CHECK(paro::state_count(AdamW{}) == 2);
  CHECK(paro::state_count(AdamW{.beta1 = 0}) == 2);
  CHECK(paro::state_count(Sgd{.momentum = 0.9}) == 1);
  CHECK(paro::state_count(Sgd{}) == 0);
  CHECK(paro::state_count(AdamW{}) <= paro::kMaxStates);
  CHECK(paro::to_string(AdamW{}) == "AdamW");
  CHECK(paro::to_string(Sgd{}) == "Sgd");
}

TEST_CASE("constants are finite at the bounds, and the bias correction fades") {
  for (const uint64_t step : {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 60}) {
    for (const AdamW& rule : {AdamW{0, 0, 0, 1e-30, 0},
                              AdamW{1e6, 0.9999999, 0.9999999, 1e-30, 1e6},
                              AdamW{1e6, 0.9999999, 0, 1e6, 1e6}}) {
      const auto factors = paro::factors_of(rule, step);
      CHECK(std::isfinite(factors.decay));
      CHECK(std::isfinite(factors.step_size));
      CHECK(factors.epsilon > 0);
    }
  }
  const auto late = paro::factors_of(AdamW{}, 10'000'000);
  CHECK(late.step_size == 1e-3F);
  CHECK(late.epsilon == 1e-8F);
}
