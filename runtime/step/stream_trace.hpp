// What a host launches in several steps, one after the other, with what each launch then waits for.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "step/streams.hpp"

namespace paro {

struct Launched {
  size_t step = 0;
  ActionId action;
  std::vector<size_t> waits;  // for earlier ones, as numbers of the trace
  bool joined = false;        // the streams were joined just before
};

class StreamTrace {
 public:
  StreamTrace(const StepPlan& plan, const StepStreams& streams)
      : plan_(plan),
        streams_(streams),
        recorded_(plan.actions.size()),
        left_(plan.actions.size()) {}

  // The next step: all of it, or ended early after so many micro-batches.
  void add_step() { add_step_of(plan_.shape.micro_batches); }
  void add_step_of(uint32_t micro_batches);
  // So many micro-batches, which are dropped.
  void add_dropped(uint32_t micro_batches);
  // Between steps: what is left of the last one, and a join.
  void add_rest();

  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<Launched>& launched() const { return launched_; }

 private:
  void launch(const Launch& launch);
  void end_step();
  // Those that the hooks of so many micro-batches launch: how many.
  [[nodiscard]] size_t launches_of(uint32_t micro_batches) const;

  const StepPlan& plan_;
  const StepStreams& streams_;
  std::vector<Launched> launched_;
  std::vector<std::optional<size_t>> recorded_;  // by action: its last launch
  std::vector<std::optional<size_t>> left_;  // by action: the step before, that has it yet to do
  size_t step_ = 0;
  bool joined_ = false;
};

}  // namespace paro
