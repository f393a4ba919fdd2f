// A rank's GPU as the place of a runner's states: the installed driver and NCCL, the device, memory
// on it.
#pragma once

#include <memory>

#include "collectives/domains.hpp"
#include "on_device/device_state_memory.hpp"

namespace paro {

struct DevicePlace {
  std::unique_ptr<DeviceStateMemory> memory;
  OnDevice use;
};

// Of the communicator's device. `stream`: the framework's, which outlives both; nullptr: the
// default stream. Errors are of this rank: no driver or NCCL, or too old, named with what to do; a
// communicator without a device; a stream of another device, or captured.
[[nodiscard]] ho::Result<DevicePlace> device_place(const ho_comm* comm, void* stream);

}  // namespace paro
