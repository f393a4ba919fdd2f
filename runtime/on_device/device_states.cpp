#include "on_device/device_states.hpp"

#include <utility>

namespace paro {

ho::Result<DeviceStates> states_on_device(const ho_comm* comm, void* stream) {
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
    HORING_ASSIGN(auto memory,
                  DeviceStateMemory::create(device, static_cast<ho::device::StreamHandle>(stream)));
    return DeviceStates{std::move(memory), {device, nccl, stream}};
  }();
  if (!found.ok()) {
    return found.status().with_context("states on a device");
  }
  return found;
}

}  // namespace paro
