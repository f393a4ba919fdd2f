// A rank whose states lie on a device of the double and are moved by the double of NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "on_device/device_state_memory.hpp"
#include "on_nccl.hpp"
#include "runner_cases.hpp"

namespace paro::test {

// This rank's device, the stream of its framework, and memory for states there.
class RankDevice {
 public:
  explicit RankDevice(ho_comm* comm);
  [[nodiscard]] const OnDevice& use() const { return states_.use; }
  [[nodiscard]] Memory& memory() const { return *memory_; }
  [[nodiscard]] const RankStates* states() const { return &states_; }
  // Whether the framework's stream has done all that it was given, after so long at most.
  [[nodiscard]] bool computed_within(std::chrono::milliseconds limit) const;

 private:
  std::shared_ptr<ho::device::Device> device_;
  std::unique_ptr<ho::device::Stream> stream_;
  std::unique_ptr<DeviceStateMemory> memory_;
  RankStates states_;
};

// A few that have parameters, gradients and optimizer states at each scope once: what a runner does
// at a scope is the same in the others, which the long run has.
[[nodiscard]] std::vector<Strategy> strategies_of_all_scopes();

// Every rank has come here.
void all_come(ho_comm* comm);

}  // namespace paro::test
