#include "on_device/device_state_memory.hpp"

#include <utility>

namespace paro {

ho::Result<std::unique_ptr<DeviceStateMemory>> DeviceStateMemory::create(
    const std::shared_ptr<const ho::device::Device>& device,
    ho::device::StreamHandle stream,
    const DeviceOptions& options) {
  HORING_ASSIGN(auto operations, DeviceOperations::create(device, stream, options));
  return std::unique_ptr<DeviceStateMemory>(  // NOLINTNEXTLINE: private constructor
      new DeviceStateMemory(device, std::move(operations)));
}

void* DeviceStateMemory::allocate(size_t bytes) {
  lack_ = failure_ = {};
  auto memory = ho::device::DeviceMemory::create(*device_, bytes);
  if (!memory.ok()) {
    const bool lacking = memory.status().code() == ho::StatusCode::kOutOfMemory;
    (lacking ? lack_ : failure_) = memory.status();
    return nullptr;
  }
  void* const address = memory->pointer();
  operations_->zero(address, bytes);
  failure_ = operations_->finish();
  if (!failure_.ok()) {
    operations_->settle();  // before it is freed
    return nullptr;
  }
  allocated_.emplace(address, std::move(*memory));
  state_bytes_ += bytes;
  return address;
}

void DeviceStateMemory::release(void* address, size_t bytes) {
  operations_->settle();
  if (allocated_.erase(address) > 0) {
    state_bytes_ -= bytes;
  }
}

std::string DeviceStateMemory::where() const {
  std::string text = " on device " + std::to_string(device_->ordinal()) + ", which has " +
                     std::to_string(device_->memory_bytes()) + " bytes in all";
  if (!lack_.ok()) {
    text += " (" + lack_.message() + ")";
  }
  return text;
}

}  // namespace paro
