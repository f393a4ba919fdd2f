// A runner's states on this rank's GPU: by the installed driver and NCCL, in memory of the device.
#pragma once

#include <memory>

#include "collectives/domains.hpp"
#include "on_device/device_state_memory.hpp"

namespace paro {

struct DeviceStates {
  std::unique_ptr<DeviceStateMemory> memory;
  OnDevice use;
};

// Of the communicator's device. `stream`: the framework's, which outlives both; nullptr: the
// default stream. Errors are of this rank: no driver or NCCL, or too old, named with what to do; a
// communicator without a device; a stream of another device, or captured. `timeout_ms`: a
// collective's deadline, at most 2^40; 0: HORING_TIMEOUT_MS.
[[nodiscard]] ho::Result<DeviceStates> states_on_device(const ho_comm* comm,
                                                        void* stream,
                                                        uint64_t timeout_ms = 0);

}  // namespace paro
