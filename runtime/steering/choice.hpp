// Which strategy a running job should have, by links as they are now.
#pragma once

#include <horing.h>

#include <optional>

#include "cost/links.hpp"
#include "planner/request.hpp"
#include "run/step_runner.hpp"

namespace paro::steering {

struct MeasuredLinks {
  WorldShape world;
  Links links;
};
// Collective, while nothing else moves: takes as long as `horing doctor`. Fails where groups are
// not the nodes, or not all of one size, which the planner's formulas need.
[[nodiscard]] ho::Result<MeasuredLinks> measure_links(ho_comm* comm, const ho::GroupMap& groups);

// The planner's request for a running job. Pure. `compute_s` is of a step.
[[nodiscard]] PlannerRequest request_of(const RunnerConfig& config,
                                        const MeasuredLinks& measured,
                                        double compute_s);

// A strategy, and where parameters that are not trained are with it.
struct Candidate {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;
};
[[nodiscard]] Candidate candidate(const Strategy& strategy,
                                  const RunnerConfig& config,
                                  bool frozen_as_parameters);

// Ok, or why this runner cannot have it: the budget (0: none), an optimizer of the framework's own.
[[nodiscard]] ho::Status check_possible(const StepRunner& runner,
                                        const Candidate& wanted,
                                        uint64_t budget_bytes);

// Whether there is any that it can.
[[nodiscard]] ho::Status check_any_possible(const StepRunner& runner,
                                            uint64_t budget_bytes,
                                            bool frozen_as_parameters);

// What is faster by at least this share is worth a change.
inline constexpr double kMinGain = 0.1;

struct Question {
  uint64_t budget_bytes = 0;  // 0: none
  double compute_s = 0;       // of a step
  bool frozen_as_parameters = true;
};
// The fastest that is possible, by the planner; nothing where the present one is nearly as fast
// and possible too.
[[nodiscard]] ho::Result<std::optional<Strategy>> better_strategy(const StepRunner& runner,
                                                                  const MeasuredLinks& measured,
                                                                  const Question& question);

}  // namespace paro::steering
