#include "on_device/device_states.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/env.hpp"

namespace paro {

ho::Result<DeviceStates> states_on_device(const ho_comm* comm, void* stream, uint64_t timeout_ms) {
  auto found = [&]() -> ho::Result<DeviceStates> {
    HORING_ASSIGN(const ho::device::Driver* const driver, ho::device::driver());
    HORING_ASSIGN(const ho::nccl::Nccl* const nccl, ho::nccl::installed());
    const int32_t ordinal = ho_comm_device(comm);
    if (ordinal == HO_DEVICE_NONE) {
      return ho::invalid(
          "the communicator has no device: set ho_comm_options.device, most often to "
          "HO_DEVICE_LOCAL_RANK, where it is made");
    }
    HORING_ASSIGN(const auto device, ho::device::Device::open(*driver, ordinal));
    HORING_ASSIGN(const uint64_t default_ms, ho::env::number(ho::env::kTimeoutMs));
    const uint64_t deadline_ms = timeout_ms == 0 ? default_ms : timeout_ms;
    DeviceOptions options{.own_streams = kTrackCount - 1};
    // Longer than a collective's, which is the cause where the stream is held by one.
    options.timeout =
        std::max(options.timeout, std::chrono::milliseconds(2 * deadline_ms + 60'000));
    HORING_ASSIGN(
        auto memory,
        DeviceStateMemory::create(device, static_cast<ho::device::StreamHandle>(stream), options));
    return DeviceStates{std::move(memory), {device, nccl}};
  }();
  if (!found.ok()) {
    return found.status().with_context("states on a device");
  }
  return found;
}

}  // namespace paro
