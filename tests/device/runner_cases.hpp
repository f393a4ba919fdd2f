// What a job trains whose states lie on devices or on the host, so that both must have the same
// bits: on the doubles in inproc_paro_on_device, on a GPU in device_paro_runner. Errors are thrown:
// ranks may be threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "run/step_runner.hpp"

namespace paro::test {

// A job of ranks in groups. Gradients are such that their sums are exact, so that the order in
// which they are added up does not show.
struct Job {
  std::string nodes = "2x2";
  RunnerConfig config;  // with units whose sizes all ranks divide
  uint32_t steps = 3;
  int32_t overflows_in = -1;  // the step whose gradients are not finite on one rank
};
[[nodiscard]] Job job_of(const Strategy& strategy, const std::string& nodes);

struct Trained {
  std::vector<double> norms;  // by step
  std::vector<bool> applied;
  std::vector<std::vector<float>> masters;  // whole, by unit
  friend bool operator==(const Trained&, const Trained&) = default;
};

using AfterSteps = std::function<void(StepRunner&, ho_comm*)>;
// Where a rank has its states on a device.
struct RankStates {
  OnDevice use;
  Memory* memory = nullptr;
};
// Trains on this rank, with states on a device; nullptr: on the host.
[[nodiscard]] Trained train(ho_comm* comm,
                            const Job& job,
                            const RankStates* on_device,
                            const AfterSteps& last = {});
// The hooks of so many micro-batches, with what a framework computes between them.
void run_micro_batches(StepRunner& runner, const Job& job, uint32_t step, uint32_t count);
// Those of a whole step; nothing is computed.
void run_hooks(StepRunner& runner);
void save(StepRunner& runner, const std::string& folder);
void restore(StepRunner& runner, const std::string& folder);
// One step of it, on a runner that was loaded.
[[nodiscard]] StepReport train_step(StepRunner& runner, const Job& job, uint32_t step);
void load_initial(StepRunner& runner);
[[nodiscard]] std::vector<std::vector<float>> masters_of(StepRunner& runner);
[[nodiscard]] std::unique_ptr<StepRunner> make_runner(ho_comm* comm,
                                                      const RunnerConfig& config,
                                                      Memory& memory);

}  // namespace paro::test
