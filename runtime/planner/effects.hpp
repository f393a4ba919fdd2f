// What a step takes beyond the critical path of its plan. Pure.
//
//   expected = (critical path + slowdown x hidden) x (1 + jitter x sqrt(2 ln ranks))
//
// Hidden are the seconds of collectives that computation hides: kernels and collectives slow one
// another, so a share of them comes back. A step waits for its slowest rank, and of n ranks that
// vary by chance the slowest is some sqrt(2 ln n) standard deviations behind the mean.
// docs/design/adr/0033-the-step-as-it-is.md
#pragma once

#include <cstdint>

namespace paro {

struct Effects {
  double slowdown = 0;  // of hidden communication, the share that comes back
  double jitter = 0;    // standard deviation of a rank's step, as a share of it
  double launch_s = 0;  // of the host, to start a collective
};

// Of GPUs with NCCL. Slowdown and jitter are what `paro plan --fit` prints, from the tables of
// tools/cli/paro/validation/tables that are there to be fitted; the launch is a kernel's, as in the
// plugin's tuner (plugin/core/tuner/cost.cpp). Hosts have none: what a step takes there is
// measured.
inline constexpr Effects kGpuEffects{0.68, 0.026, 7e-6};

struct StepRange {
  double expected_s = 0;
  // Of the slowest rank too, and
  double least_s = 0;  // where all overlaps that can and costs nothing
  double most_s = 0;   // where computation and collectives take turns
};

// The critical path of a step that computes for `compute_s` and has collectives of `busy_s`.
[[nodiscard]] StepRange step_range(
    double path_s, double compute_s, double busy_s, const Effects& effects, uint32_t ranks);

}  // namespace paro
