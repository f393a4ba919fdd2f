// Training steps of one system in a running job.
#pragma once

#include <horing/communicator.hpp>
#include <vector>

#include "bench/paro_bench/bench_options.hpp"
#include "bench/paro_bench/outcome.hpp"
#include "bench/paro_bench/workload.hpp"
#include "planner/figures.hpp"
#include "run/step_runner.hpp"

namespace paro::bench {

// What the runner did in the last step, on this rank.
struct StepTrace {
  std::vector<ActionSpan> spans;
  std::vector<std::string> names;  // of the plan's actions
  std::vector<Track> tracks;       // theirs
};

class Driver {
 public:
  // Collective. Throws horing::Error.
  Driver(horing::Communicator& job, const BenchOptions& options);

  // Collective: a fresh runner, a step that is not timed, options.steps that are. `trace`: nullptr
  // for none.
  [[nodiscard]] Sample sample(const System& system, const Workload& load, StepTrace* trace) const;
  // By the step plan, from links measured when the driver was made; nothing where they are not
  // known.
  [[nodiscard]] std::optional<StrategyFigures> planned(const System& system,
                                                       const Workload& load) const;

  [[nodiscard]] const PlannerRequest& links() const { return links_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  [[nodiscard]] RunnerConfig config_of(const System& system, const Workload& load) const;

  horing::Communicator& job_;
  const BenchOptions& options_;
  ho::GroupMap groups_;
  PlannerRequest links_;  // a world of no ranks where they are not known
  std::vector<std::string> notes_;
};

}  // namespace paro::bench
