// What was measured of a system, and what follows from all of them. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/paro_bench/systems.hpp"
#include "cli/paro/job/step_times.hpp"
#include "planner/figures.hpp"
#include "step/traffic.hpp"

namespace paro::bench {

// One round: means over its steps.
struct Sample {
  tool::StepTimes times;
  Traffic sent;                    // by all ranks, per step
  std::optional<Traffic> planned;  // the step plan's bytes; flat rings cross more boundaries
  tool::PeakMemory memory;
  std::optional<double> processors_busy;  // of rank 0's machine, 0 to 1
};

struct Outcome {
  System system;
  double compute_factor = 1;
  double batch = 0;  // samples that all ranks together train on in a step
  std::vector<Sample> samples;
  // By the step plan, from links measured in this job; nothing where they are not known.
  std::optional<StrategyFigures> planned;

  // 0: not known.
  [[nodiscard]] double predicted_step_s() const { return planned ? planned->time.step_s : 0; }
  // Medians over the samples, each quantity by itself; at least one sample.
  [[nodiscard]] tool::StepTimes times() const;
  [[nodiscard]] double samples_per_s() const { return batch / times().step; }
  // Median; nothing where the system does not report it.
  [[nodiscard]] std::optional<double> processors_busy() const;
  [[nodiscard]] double least_step_s() const;
  [[nodiscard]] double most_step_s() const;
  [[nodiscard]] const Sample& last() const { return samples.back(); }
};

// Kendall's tau-b of two orders of the same things, from -1 to 1. Values that differ by at most the
// share `tie` of the larger are tied. Nothing where one of the two ties all.
[[nodiscard]] std::optional<double> kendall_tau_b(std::span<const double> a,
                                                  std::span<const double> b,
                                                  double tie);

// A baseline against what the planner would take of libparo's strategies in the baseline's memory.
struct Comparison {
  const Outcome* baseline = nullptr;
  const Outcome* recommended = nullptr;
  // How many times as fast as the baseline: over 1 is a gain.
  [[nodiscard]] double ratio() const { return baseline->times().step / recommended->times().step; }
};
// Of one compute factor. Baselines in whose memory none of what was measured fits are left out.
[[nodiscard]] std::vector<Comparison> comparisons(std::span<const Outcome> outcomes,
                                                  double compute_factor);

}  // namespace paro::bench
