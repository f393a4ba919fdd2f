// A job's ranks with a runner each, whose states lie on devices of the double and are moved by the
// double of NCCL, or on the host; and what such a job trains. Errors are thrown: ranks are threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "on_device/device_state_memory.hpp"
#include "on_nccl.hpp"
#include "run/step_runner.hpp"

namespace paro::test {

// This rank's device, the stream of its framework, and memory for states there.
class RankDevice {
 public:
  explicit RankDevice(ho_comm* comm);
  [[nodiscard]] OnDevice use() const;
  [[nodiscard]] Memory& memory() const { return *memory_; }

 private:
  std::shared_ptr<ho::device::Device> device_;
  std::unique_ptr<ho::device::Stream> stream_;
  std::unique_ptr<DeviceStateMemory> memory_;
};

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
// Trains on this rank. `device`: its states lie there; nullptr: on the host.
[[nodiscard]] Trained train(ho_comm* comm,
                            const Job& job,
                            const RankDevice* device,
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
