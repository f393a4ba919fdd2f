#include "device/device.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <mutex>
#include <utility>

#include "base/bytes.hpp"
#include "base/log.hpp"

namespace ho::device {

namespace {

Status of_device(const Driver& driver, int ordinal, std::string_view call, DriverResult result) {
  return driver_error(driver, call, result).with_context("device " + std::to_string(ordinal));
}

// As "GPU-" and the usual groups of hexadecimal digits, as nvidia-smi has it.
std::string uuid_text(const DeviceUuid& uuid) {
  std::string text = hex_text(std::as_bytes(std::span(uuid.bytes)));
  for (const size_t at : {8U, 13U, 18U, 23U}) {
    text.insert(at, 1, '-');
  }
  return "GPU-" + text;
}

// hwloc and the kernel write small letters, some drivers capital ones.
std::string in_small_letters(std::string text) {
  std::ranges::transform(
      text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Result<int> visible_devices(const Driver& driver) {
  HORING_ASSIGN(const int count, device_count(driver));
  if (count == 0) {
    return Status(StatusCode::kUnsupported,
                  "no CUDA device is visible to this process; look at CUDA_VISIBLE_DEVICES");
  }
  return count;
}

Result<Ordinal> find_device(const Driver& driver, int ordinal) {
  const auto counted = visible_devices(driver);
  if (!counted.ok()) {
    return counted.status().with_context("device " + std::to_string(ordinal));
  }
  const int count = *counted;
  if (ordinal < 0 || ordinal >= count) {
    return invalid("there is no device " + std::to_string(ordinal) + ": the driver shows " +
                   std::to_string(count) + ", counted from 0; see CUDA_VISIBLE_DEVICES");
  }
  Ordinal handle = 0;
  HORING_TRY(of_device(driver, ordinal, "cuDeviceGet", driver.device_get(&handle, ordinal)));
  return handle;
}

Result<DeviceFacts> facts_of_handle(const Driver& driver, int ordinal, Ordinal handle) {
  const auto check = [&](std::string_view call, DriverResult result) {
    return of_device(driver, ordinal, call, result);
  };
  DeviceFacts facts;
  facts.ordinal = ordinal;
  std::array<char, 256> text{};
  const auto size = static_cast<int>(text.size());
  HORING_TRY(check("cuDeviceGetName", driver.device_name(text.data(), size, handle)));
  facts.name = text.data();
  HORING_TRY(check("cuDeviceGetPCIBusId", driver.device_pci_bus_id(text.data(), size, handle)));
  facts.pci_bus_id = in_small_letters(text.data());
  DeviceUuid uuid{};
  HORING_TRY(check("cuDeviceGetUuid", driver.device_uuid(&uuid, handle)));
  facts.uuid = uuid_text(uuid);
  HORING_TRY(check("cuDeviceTotalMem", driver.device_memory(&facts.memory_bytes, handle)));
  return facts;
}

// Whether the context's memory is left behind; stays for the process.
std::atomic<bool>* left_behind_of(ContextHandle context) {
  static std::mutex mutex;
  static auto* const all =  // never ended
      std::make_unique<std::map<ContextHandle, std::atomic<bool>>>().release();
  const std::lock_guard lock(mutex);
  return &(*all)[context];
}

}  // namespace

Result<DeviceFacts> device_facts(const Driver& driver, int ordinal) {
  HORING_ASSIGN(const Ordinal handle, find_device(driver, ordinal));
  return facts_of_handle(driver, ordinal, handle);
}

Result<int> device_of_local_rank(const Driver& driver, uint32_t local_rank) {
  HORING_ASSIGN(const int count, visible_devices(driver));
  return static_cast<int>(local_rank % static_cast<uint32_t>(count));
}

Result<std::shared_ptr<Device>> Device::open(const Driver& driver, int ordinal) {
  HORING_ASSIGN(const Ordinal handle, find_device(driver, ordinal));
  HORING_ASSIGN(DeviceFacts facts, facts_of_handle(driver, ordinal, handle));
  const std::shared_ptr<Device> device(
      new Device(driver, handle, std::move(facts)));  // NOLINT: private constructor
  const RelaxedCapture relaxed(driver);
  HORING_TRY(device->check("cuDevicePrimaryCtxRetain",
                           driver.primary_context_retain(&device->context_, device->handle_)));
  device->left_behind_ = left_behind_of(device->context_);
  return device;
}

void log_failure(const Status& status) {
  if (!status.ok()) {
    log_debug("{}", status.message());
  }
}

void Device::leave_behind(const Status& why) const {
  if (!left_behind_->exchange(true)) {
    log_warn(
        "device {}: {}; its memory is not given back, which would wait for that work: end this "
        "process",
        ordinal(),
        why.message());
  }
}

bool Device::leaves(size_t bytes) const {
  left_bytes_ += *left_behind_ ? bytes : 0;
  return *left_behind_;
}

Device::~Device() {
  if (left_behind_ != nullptr && *left_behind_) {
    log_warn("device {}: {} bytes are left behind", ordinal(), left_bytes_.load());
    return;
  }
  if (context_ != nullptr) {
    const RelaxedCapture relaxed(driver_);
    log_failure(check("cuDevicePrimaryCtxRelease", driver_.primary_context_release(handle_)));
  }
}

Status Device::check(std::string_view call, DriverResult result) const {
  return result == kSuccess ? Status() : of_device(driver_, ordinal(), call, result);
}

Result<bool> enable_access(const Device& device, const Device& peer) {
  const Driver& driver = device.driver();
  int can = 0;
  HORING_TRY(device.check("cuDeviceCanAccessPeer",
                          driver.can_access_peer(&can, device.handle_, peer.handle_)));
  if (can == 0) {
    return false;
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  const DriverResult result = driver.context_enable_peer(peer.context(), 0);
  HORING_TRY(device.check("cuCtxEnablePeerAccess",
                          result == kPeerAccessAlreadyEnabled ? kSuccess : result));
  return true;
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(&driver) {
  if (driver.thread_capture_mode(&before_) != kSuccess) {
    driver_ = nullptr;  // the calls that follow say what is wrong
  }
}

RelaxedCapture::RelaxedCapture(RelaxedCapture&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), before_(other.before_) {}

RelaxedCapture::~RelaxedCapture() {
  if (driver_ != nullptr) {
    static_cast<void>(driver_->thread_capture_mode(&before_));
  }
}

Result<CurrentContext> CurrentContext::enter(const Device& device) {
  HORING_TRY(device.check("cuCtxPushCurrent", device.driver().context_push(device.context())));
  return CurrentContext(device.driver());
}

CurrentContext::CurrentContext(CurrentContext&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), relaxed_(std::move(other.relaxed_)) {}

CurrentContext::~CurrentContext() {
  if (driver_ != nullptr) {
    ContextHandle popped = nullptr;
    const DriverResult result = driver_->context_pop(&popped);
    if (result != kSuccess) {
      log_debug("{}", driver_error(*driver_, "cuCtxPopCurrent", result).message());
    }
  }
}

namespace {

// The context is no argument of the caller's, whatever the driver says.
Result<CurrentContext> enter_own(const Device& device) {
  auto current = CurrentContext::enter(device);
  return current.ok()
             ? std::move(current)
             : Result<CurrentContext>(Status(StatusCode::kSystem, current.status().message()));
}

}  // namespace

// Of the default stream the driver refuses to say it while a stream that waits for it is captured:
// work on the default stream would spoil that.
Status check_not_captured(const Device& device, StreamHandle stream) {
  HORING_ASSIGN(const CurrentContext current, enter_own(device));
  int capturing = kCaptureNone;
  HORING_TRY(
      device.check("cuStreamIsCapturing", device.driver().stream_capturing(stream, &capturing)));
  if (capturing != kCaptureNone) {
    return {StatusCode::kUnsupported,
            "device " + std::to_string(device.ordinal()) +
                ": the stream is being captured into a graph, and this library's work cannot be "
                "captured; call it outside of the capture"};
  }
  return {};
}

Status check_stream(const Device& device, StreamHandle stream) {
  HORING_TRY(check_not_captured(device, stream));
  if (stream == nullptr) {
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, enter_own(device));
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
