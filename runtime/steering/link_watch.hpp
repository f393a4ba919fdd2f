// Whether a job's links are still what they were, by how long a byte takes in its collectives.
// Pure.
//
// That is a hint, not a measurement: a rank that is late makes collectives long as well. So what
// follows from a change is that links are measured, not that one is assumed.
#pragma once

#include <cstdint>
#include <optional>

#include "run/step_runner.hpp"

namespace paro::steering {

// More than this many times as long, or less than that part.
inline constexpr double kChangedRate = 2;

class LinkWatch {
 public:
  // Compares every so many steps; 0: never.
  explicit LinkWatch(uint32_t interval) : interval_(interval) {}

  struct Change {
    double before_ns_per_byte = 0;  // in the first interval
    double now_ns_per_byte = 0;
  };
  [[nodiscard]] std::optional<Change> after_step(const StepReport& report);
  // The strategy is another one, or has been chosen once more: what follows is the first interval.
  void begin_anew();
  // The framework's computation, the mean over this interval's steps.
  [[nodiscard]] double compute_s() const;

 private:
  struct Sums {
    uint64_t steps = 0;
    double collective_ns = 0;
    double bytes = 0;
    double compute_ns = 0;
  };

  uint32_t interval_;
  Sums sums_;
  std::optional<double> reference_;  // ns per byte
};

}  // namespace paro::steering
