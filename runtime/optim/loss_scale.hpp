// The loss scale: what a loss is multiplied by so that small gradients survive in 16 bits. Pure.
//
// fp16 gradients below 6e-8 are zeros. Multiplying the loss moves all gradients up; the update
// divides by the same number. The best scale is the largest that makes nothing overflow, and it
// changes while a model trains. So a dynamic scale grows after so many steps without an overflow,
// and shrinks after a step with one (which is not taken). All ranks make the same steps and agree
// on an overflow on any of them, so all have the same scale.
//
// Powers of two are best: multiplying by them loses no place.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace paro {

enum class Scaling : uint8_t {
  kNone,     // the scale is 1
  kStatic,   // it stays at `initial`
  kDynamic,  // it begins at `initial`
};

struct LossScaleSettings {
  Scaling scaling = Scaling::kDynamic;
  double initial = 65536;
  double growth = 2;     // factor after growth_interval steps in a row without an overflow
  double backoff = 0.5;  // factor after a step with one
  uint64_t growth_interval = 2000;
  double least = 1;
  double most = 16777216;
  friend bool operator==(const LossScaleSettings&, const LossScaleSettings&) = default;
};

// Ok, or the first setting that cannot work and what it may be. Settings that `scaling` does not
// use are not checked.
[[nodiscard]] ho::Status check(const LossScaleSettings& settings);

// What a checkpoint keeps.
struct LossScaleState {
  double value = 1;
  uint64_t good_steps = 0;  // since the scale last changed
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

class LossScale {
 public:
  // Settings that check() accepts.
  explicit LossScale(const LossScaleSettings& settings);

  [[nodiscard]] double value() const { return state_.value; }
  // Whether an overflow makes it smaller: then it is an expected event of a dynamic scale.
  [[nodiscard]] bool shrinks() const {
    return settings_.scaling == Scaling::kDynamic && state_.value > settings_.least;
  }
  // After each step, taken or not: whether a gradient of any rank was not finite, and the scale
  // that it was run with. Where the outcome of a step is known when the next one has been run
  // already, that one says nothing of a scale that has changed since: it does not count.
  void after_step(bool overflow, double run_with);

  [[nodiscard]] LossScaleState state() const { return state_; }
  // Goes on where a run with a dynamic scale stopped. The settings are today's: a value beyond
  // their bounds is brought inside, and a scale that is not dynamic stays as it is. Refused is only
  // what no scale can be.
  [[nodiscard]] ho::Status restore(const LossScaleState& state);

 private:
  LossScaleSettings settings_;
  LossScaleState state_;
};

}  // namespace paro
