// What operations on states promise, case by case: a device's give the host's results bit for bit.
// Run on the double (tests/inproc/on_device) and on a GPU (device_states).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "on_device/device_state_memory.hpp"

namespace paro::device_suite {

struct StateCase {
  const char* name;
  // The first difference, or "".
  std::string (*run)(DeviceStateMemory& memory);
};
[[nodiscard]] std::span<const StateCase> state_cases();

// One step as a runner makes it, of so many elements: sums, norm, decision, updates, and one small
// copy to the host. `left_out`: a gradient is not finite. "" or what differs from the host's.
class TrainedUnit {
 public:
  TrainedUnit(DeviceStateMemory& memory, Rule rule, ho::DType dtype, uint64_t elements);
  TrainedUnit(const TrainedUnit&) = delete;
  TrainedUnit& operator=(const TrainedUnit&) = delete;
  ~TrainedUnit();
  void put_gradients(uint64_t seed, bool left_out);
  // All that is enqueued, nothing waits.
  void step();
  [[nodiscard]] StepControl finish(ho::Status& status);
  [[nodiscard]] std::string difference();

 private:
  struct Twins;
  std::unique_ptr<Twins> twins_;
};

}  // namespace paro::device_suite
