// What one strategy needs of a rank's memory, and how long its step takes. Pure.
//
// Memory: the model states; the buffers that the step plan works in, which are prefetch + 1 layers
// of gathered parameters where parameters are split and kGradientBuffers layers (or buckets) of
// gradients where gradients are, kPackBuffers buckets; the activations that the request gives.
//
// Time: the terms of the paper's formula and its T, which takes it that all communication can hide
// behind computation; and a step's critical path, which finds what really can. For that the step
// plan of the strategy runs in virtual time, a unit per layer, each collective taking the seconds
// that the same formulas give for its layers' bytes. So the seconds of the plan's collectives add
// up to the formula's, and the two differ in what overlaps with what, and in nothing else. What
// comes on top of the path is in planner/effects.hpp.
#pragma once

#include "base/status.hpp"
#include "cost/step_time.hpp"
#include "planner/effects.hpp"
#include "planner/request.hpp"
#include "planner/virtual_step.hpp"

namespace paro {

// Of one rank.
struct MemoryNeed {
  StateBytes states;
  double gathered = 0;          // parameters of layers in use
  double gradient_buffers = 0;  // gradients on their way to those who keep them
  double activations = 0;
  double reserve = 0;
  [[nodiscard]] double total() const {
    return states.total() + gathered + gradient_buffers + activations + reserve;
  }
};

struct StepTime {
  StepSeconds terms;
  double communication_s = 0;  // of a step, as if nothing overlapped
  double paper_step_s = 0;     // T
  double indicator = 0;        // log(1/T); infinite where T is 0
  double step_s = 0;           // as expected: the critical path and what comes on top of it
  double exposed_s = 0;        // communication that computation does not hide on that path
  double waiting_s = 0;        // of both, what other dimensions of parallelism send
  double busy_s = 0;           // the step plan's collectives, one after the other
  double half_links_s = 0;     // step_s with links between nodes half as good (half_as_good())
  StepRange range;             // from all overlaps that can be to none
  LinkTime intra;              // links inside groups
  LinkTime inter;              // and between them
};

struct StrategyFigures {
  Strategy strategy;
  MemoryNeed memory;
  StepTime time;
  double memory_bytes = 0;     // that the rank has; 0: not known
  double missing_bytes = 0;    // 0: it fits, or the memory is not known
  uint32_t micro_batches = 1;  // of a step
  [[nodiscard]] bool fits() const { return missing_bytes == 0; }
};

[[nodiscard]] MemoryNeed memory_of(const Strategy& strategy, const PlannerRequest& request);

// For a request that check() accepts and with_batch() has completed.
[[nodiscard]] ho::Result<StrategyFigures> figures_of(const Strategy& strategy,
                                                     const PlannerRequest& request);

// What a step's range is made of.
struct StepPath {
  double path_s = 0;     // the critical path
  double compute_s = 0;  // with the update
  double busy_s = 0;     // of collectives
};
// Of the same request, a step's path alone: a quarter of the work.
[[nodiscard]] ho::Result<StepPath> step_path(const Strategy& strategy,
                                             const PlannerRequest& request);
// StepTime::step_s alone: as much.
[[nodiscard]] ho::Result<double> expected_step_s(const Strategy& strategy,
                                                 const PlannerRequest& request);

}  // namespace paro
