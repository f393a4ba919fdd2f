#include "optim/loss_scale.hpp"

#include <algorithm>

#include "optim/bounds.hpp"

namespace paro {
namespace {

constexpr std::string_view kOwner = "loss scale";
// A scale and its inverse are normal fp32 numbers inside these.
constexpr Bounds kScale{.least = 0x1p-100, .most = 0x1p100};

}  // namespace

ho::Status check(const LossScaleSettings& settings) {
  if (settings.scaling == Scaling::kNone) {
    return {};
  }
  HORING_TRY(check_bounds(kOwner, "initial", settings.initial, kScale));
  if (settings.scaling == Scaling::kStatic) {
    return {};
  }
  HORING_TRY(check_bounds(kOwner, "least", settings.least, kScale));
  HORING_TRY(check_bounds(kOwner, "most", settings.most, {settings.least, kScale.most}));
  HORING_TRY(check_bounds(kOwner, "initial", settings.initial, {settings.least, settings.most}));
  HORING_TRY(check_bounds(
      kOwner, "growth", settings.growth, {.least = 1, .most = 1e6, .least_excluded = true}));
  HORING_TRY(check_bounds(kOwner,
                          "backoff",
                          settings.backoff,
                          {.least = 0, .most = 1, .least_excluded = true, .most_excluded = true}));
  if (settings.growth_interval == 0) {
    return ho::invalid("loss scale: growth_interval is 0; it is a number of steps, at least 1");
  }
  return {};
}

LossScale::LossScale(const LossScaleSettings& settings) : settings_(settings) {
  state_.value = settings.scaling == Scaling::kNone ? 1 : settings.initial;
}

void LossScale::after_step(bool overflow, double run_with) {
  if (settings_.scaling != Scaling::kDynamic || run_with != state_.value) {
    return;
  }
  if (overflow) {
    state_ = {std::max(state_.value * settings_.backoff, settings_.least), 0};
  } else if (++state_.good_steps >= settings_.growth_interval) {
    state_ = {std::min(state_.value * settings_.growth, settings_.most), 0};
  }
}

ho::Status LossScale::restore(const LossScaleState& state) {
  HORING_TRY(check_bounds(kOwner, "saved value", state.value, kScale));
  if (settings_.scaling == Scaling::kDynamic) {
    state_ = {std::clamp(state.value, settings_.least, settings_.most), state.good_steps};
  }
  return {};
}

}  // namespace paro
