// Calls that end a communicator of NCCL. They wait for the device, whose work may never end.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"
#include "nccl/nccl.hpp"
#include "os/clock.hpp"

namespace paro {

struct NcclEnd {
  std::string name;  // of the communicator, for errors
  ho::nccl::CommHandle handle = nullptr;
};

// How long is waited for one.
struct NcclEndTime {
  ho::Deadline until{};
  std::chrono::milliseconds timeout{};  // that led to it, for errors
};

// Aborts them, each in a thread of its own, so that one that waits holds up none that would end
// what it waits for. A thread that takes longer is left behind with all that it uses; its error is
// kTimeout. One status for each. The table lives as long as the process.
[[nodiscard]] std::vector<ho::Status> abort_all(
    const ho::nccl::Nccl& nccl,
    const std::shared_ptr<const ho::device::Device>& device,
    const std::vector<NcclEnd>& ends,
    const NcclEndTime& time);
// One that is finalized, likewise.
[[nodiscard]] ho::Status destroy(const ho::nccl::Nccl& nccl,
                                 const std::shared_ptr<const ho::device::Device>& device,
                                 const NcclEnd& end,
                                 const NcclEndTime& time);

}  // namespace paro
