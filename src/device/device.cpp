#include "device/device.hpp"

#include <array>
#include <utility>

#include "base/log.hpp"

namespace ho::device {

Result<std::shared_ptr<Device>> Device::open(const Driver& driver, int ordinal) {
  const std::shared_ptr<Device> device(new Device(driver, ordinal));  // NOLINT: private constructor
  HORING_TRY(device->find());
  HORING_TRY(device->check("cuDevicePrimaryCtxRetain",
                           driver.primary_context_retain(&device->context_, device->handle_)));
  return device;
}

Status Device::find() {
  HORING_TRY(check("cuInit", driver_.init(0)));
  int count = 0;
  HORING_TRY(check("cuDeviceGetCount", driver_.device_count(&count)));
  if (ordinal_ < 0 || ordinal_ >= count) {
    return invalid("there is no device " + std::to_string(ordinal_) + ": the driver shows " +
                   std::to_string(count) + ", counted from 0; see CUDA_VISIBLE_DEVICES");
  }
  HORING_TRY(check("cuDeviceGet", driver_.device_get(&handle_, ordinal_)));
  std::array<char, 256> text{};
  HORING_TRY(check("cuDeviceGetName",
                   driver_.device_name(text.data(), static_cast<int>(text.size()), handle_)));
  name_ = text.data();
  HORING_TRY(check("cuDeviceGetPCIBusId",
                   driver_.device_pci_bus_id(text.data(), static_cast<int>(text.size()), handle_)));
  pci_bus_id_ = text.data();
  return check("cuDeviceTotalMem", driver_.device_memory(&memory_bytes_, handle_));
}

Device::~Device() {
  if (context_ != nullptr) {
    const Status status =
        check("cuDevicePrimaryCtxRelease", driver_.primary_context_release(handle_));
    if (!status.ok()) {
      log_debug("{}", status.message());
    }
  }
}

Status Device::check(std::string_view call, DriverResult result) const {
  if (result == kSuccess) {
    return {};
  }
  return driver_error(driver_, call, result).with_context("device " + std::to_string(ordinal_));
}

Result<CurrentContext> CurrentContext::enter(const Device& device) {
  HORING_TRY(device.check("cuCtxPushCurrent", device.driver().context_push(device.context())));
  return CurrentContext(&device.driver());
}

CurrentContext::CurrentContext(CurrentContext&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)) {}

CurrentContext::~CurrentContext() {
  if (driver_ != nullptr) {
    ContextHandle popped = nullptr;
    const DriverResult result = driver_->context_pop(&popped);
    if (result != kSuccess) {
      log_debug("{}", driver_error(*driver_, "cuCtxPopCurrent", result).message());
    }
  }
}

Status check_stream(const Device& device, StreamHandle stream) {
  if (stream == nullptr) {
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  int capturing = kCaptureNone;
  HORING_TRY(
      device.check("cuStreamIsCapturing", device.driver().stream_capturing(stream, &capturing)));
  if (capturing != kCaptureNone) {
    return {StatusCode::kUnsupported,
            "device " + std::to_string(device.ordinal()) +
                ": the stream is being captured into a graph, and collectives cannot be captured; "
                "call them outside of the capture"};
  }
  ContextHandle context = nullptr;
  HORING_TRY(device.check("cuStreamGetCtx", device.driver().stream_context(stream, &context)));
  if (context != device.context()) {
    return invalid("the stream belongs to another context than device " +
                   std::to_string(device.ordinal()) +
                   "'s primary one; give a stream that was made while this device was current");
  }
  return {};
}

Result<int> device_count(const Driver& driver) {
  if (const DriverResult result = driver.init(0); result != kSuccess) {
    return result == kNoDevice ? Result<int>(0) : driver_error(driver, "cuInit", result);
  }
  int count = 0;
  if (const DriverResult result = driver.device_count(&count); result != kSuccess) {
    return driver_error(driver, "cuDeviceGetCount", result);
  }
  return count;
}

}  // namespace ho::device
