// Where the time of steps went, on this rank and over all ranks.
#pragma once

#include <cstdint>
#include <horing/communicator.hpp>

#include "cli/paro/job/step_times.hpp"
#include "run/step_runner.hpp"
#include "step/traffic.hpp"

namespace paro::tool {

// Of this rank, over the steps that count.
class StepAccount {
 public:
  void add(const StepReport& report);
  // Collective. Of one of `parts` that the steps were added in: an accumulated step that a system
  // takes as several is one.
  [[nodiscard]] StepTimes times(horing::Communicator& job, uint32_t parts = 1) const;

 private:
  double step_ = 0;
  double compute_ = 0;
  double wait_ = 0;
  double update_ = 0;
  double hooks_ = 0;
  double hook_count_ = 0;
  uint32_t steps_ = 0;
};

// Collective: payload that all ranks have sent for training since the runner was created, per step
// of `steps`.
[[nodiscard]] Traffic sent_by_all(horing::Communicator& job,
                                  const StepRunner& runner,
                                  uint64_t steps);
// By the step plan, with groups that are nodes.
[[nodiscard]] Traffic planned_traffic(const StepRunner& runner);

// Collective; the same on all ranks.
[[nodiscard]] PeakMemory peak_memory(horing::Communicator& job, const StepRunner& runner);

}  // namespace paro::tool
