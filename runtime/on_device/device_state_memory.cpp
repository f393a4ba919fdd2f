#include "on_device/device_state_memory.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace paro {
namespace {

constexpr size_t kOwnSlotBytes = 4096;

}  // namespace

ho::Result<std::unique_ptr<DeviceStateMemory>> DeviceStateMemory::create(
    const std::shared_ptr<const ho::device::Device>& device,
    ho::device::StreamHandle stream,
    const DeviceOptions& options) {
  const auto failed = std::make_shared<ho::Status>();
  std::vector<ho::device::Stream> streams;
  AllOperations operations;
  HORING_ASSIGN(operations.emplace_back(),
                DeviceOperations::create(device, stream, options, failed));
  DeviceOptions of_own = options;  // of which the host gets a few numbers alone
  of_own.slots = 2;
  of_own.slot_bytes = std::min(options.slot_bytes, kOwnSlotBytes);
  for (size_t own = 0; own < options.own_streams; ++own) {
    HORING_ASSIGN(ho::device::Stream made, ho::device::Stream::create(*device));
    HORING_ASSIGN(operations.emplace_back(),
                  DeviceOperations::create(device, made.handle(), of_own, failed));
    streams.push_back(std::move(made));
  }
  return std::unique_ptr<DeviceStateMemory>(  // NOLINTNEXTLINE: private constructor
      new DeviceStateMemory(device, std::move(streams), std::move(operations)));
}

ho::Result<std::unique_ptr<Mark>> DeviceStateMemory::make_mark() {
  HORING_ASSIGN(ho::device::Event event, ho::device::Event::create(*device_));
  return std::unique_ptr<Mark>(std::make_unique<DeviceMark>(std::move(event)));
}

size_t DeviceStateMemory::sum(size_t (DeviceOperations::*bytes)() const) const {
  return std::transform_reduce(
      operations_.begin(), operations_.end(), size_t{0}, std::plus(), [&](const auto& one) {
        return (*one.*bytes)();
      });
}

void DeviceStateMemory::settle() const {
  for (const auto& each : operations_) {
    each->settle();
  }
}

void DeviceStateMemory::limit_waits(uint64_t timeout_ms) {
  for (const auto& each : operations_) {
    each->limit_waits(timeout_ms);
  }
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
  operations().zero(address, bytes);
  failure_ = operations().finish();
  if (!failure_.ok()) {
    settle();  // before it is freed
    return nullptr;
  }
  allocated_.emplace(address, std::move(*memory));
  state_bytes_ += bytes;
  return address;
}

void DeviceStateMemory::release(void* address, size_t bytes) {
  settle();
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
