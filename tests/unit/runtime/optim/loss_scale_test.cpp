#include "optim/loss_scale.hpp"

#include <limits>
#include <string>

#include "catch.hpp"

using paro::LossScale;
using paro::LossScaleSettings;
using paro::LossScaleState;
using paro::Scaling;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One that was run with the present scale.
void after_step(LossScale& scale, bool overflow) {
  scale.after_step(overflow, scale.value());
}

void after_good_steps(LossScale& scale, int steps) {
  for (int i = 0; i < steps; ++i) {
    after_step(scale, false);
  }
}

LossScaleSettings growing_every(uint64_t steps) {
  return {.growth_interval = steps};
}

std::string refusal(const LossScaleSettings& settings) {
  const ho::Status status = paro::check(settings);
  CHECK(status.code() == ho::StatusCode::kInvalidArgument);
  return status.message();
}

}  // namespace

TEST_CASE("a dynamic scale doubles after an interval of good steps") {
  LossScale scale{LossScaleSettings{}};
  CHECK(scale.value() == 65536);
  after_good_steps(scale, 1999);
  CHECK(scale.value() == 65536);
  after_step(scale, false);
  CHECK(scale.value() == 131072);
  after_good_steps(scale, 2000);
  CHECK(scale.value() == 262144);
}

TEST_CASE("an overflow halves a dynamic scale and starts the interval again") {
  LossScale scale(growing_every(3));
  after_good_steps(scale, 2);
  after_step(scale, true);
  CHECK(scale.value() == 32768);
  after_good_steps(scale, 2);
  CHECK(scale.value() == 32768);
  after_step(scale, false);
  CHECK(scale.value() == 65536);
  after_step(scale, true);
  after_step(scale, true);
  CHECK(scale.value() == 16384);
}

TEST_CASE("a dynamic scale stays in its bounds") {
  LossScale scale(growing_every(1));
  after_good_steps(scale, 100);
  CHECK(scale.value() == 16777216);
  for (int i = 0; i < 100; ++i) {
    after_step(scale, true);
  }
  CHECK(scale.value() == 1);
}

TEST_CASE("steps that were run with a scale of before say nothing of the present one") {
  LossScale scale(growing_every(2));
  const double before = scale.value();
  scale.after_step(true, before);
  scale.after_step(true, before);  // it was run when nobody knew of the first
  CHECK(scale.value() == before / 2);
  scale.after_step(false, before);
  after_step(scale, false);
  CHECK(scale.value() == before / 2);  // one good step of two
  after_step(scale, false);
  CHECK(scale.value() == before);
}

TEST_CASE("a static scale never changes, and none is 1") {
  LossScale fixed({.scaling = Scaling::kStatic, .initial = 1024});
  LossScale none({.scaling = Scaling::kNone});
  for (const bool overflow : {true, false, false, true}) {
    after_step(fixed, overflow);
    after_step(none, overflow);
    CHECK(fixed.value() == 1024);
    CHECK(none.value() == 1);
  }
}

TEST_CASE("a restored scale goes on as if it had never stopped") {
  for (int stop = 0; stop < 12; ++stop) {
    LossScale straight(growing_every(3));
    LossScale resumed(growing_every(3));
    for (int i = 0; i < 12; ++i) {
      if (i == stop) {
        const LossScaleState saved = resumed.state();
        resumed = LossScale(growing_every(3));
        REQUIRE(resumed.restore(saved).ok());
      }
      const bool overflow = i % 5 == 4;
      after_step(straight, overflow);
      after_step(resumed, overflow);
      CHECK(resumed.state() == straight.state());
    }
  }
}

TEST_CASE("a restored scale keeps to the settings that it meets") {
  LossScale scale({.initial = 512, .most = 1024});
  CHECK(scale.restore({4096, 7}).ok());
  CHECK(scale.value() == 1024);
  LossScale eager(growing_every(2));
  CHECK(eager.restore({64, 1500}).ok());
  after_step(eager, false);
  CHECK(eager.value() == 128);
  LossScale fixed({.scaling = Scaling::kStatic, .initial = 8});
  CHECK(fixed.restore({4096, 7}).ok());
  CHECK(fixed.value() == 8);
  for (const double bad : {kNan, kInfinity, 0.0, -4.0}) {
    CHECK_FALSE(scale.restore({bad, 0}).ok());
    CHECK(scale.value() == 1024);
  }
}

TEST_CASE("settings that cannot work are refused, those without a use are not looked at") {
  CHECK(paro::check(LossScaleSettings{}).ok());
  CHECK(refusal({.initial = 0.5}) == "loss scale: initial is 0.5; allowed is [1, 16777216]");
  CHECK(refusal({.growth = 1}) == "loss scale: growth is 1; allowed is (1, 1000000]");
  CHECK(refusal({.backoff = 1}) == "loss scale: backoff is 1; allowed is (0, 1)");
  CHECK(refusal({.growth_interval = 0}).find("growth_interval is 0") != std::string::npos);
  CHECK(refusal({.least = 4, .most = 2}).find("most is 2") != std::string::npos);
  CHECK(refusal({.initial = kNan}).find("initial") != std::string::npos);
  CHECK(refusal({.scaling = Scaling::kStatic, .initial = kInfinity}).find("initial") !=
        std::string::npos);
  CHECK(paro::check({.scaling = Scaling::kStatic, .initial = 0.5, .growth = 0}).ok());
  CHECK(paro::check({.scaling = Scaling::kNone, .initial = kNan}).ok());
}
