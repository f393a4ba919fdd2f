#include <utility>

#include "base/log.hpp"
#include "device/address.hpp"
#include "device/device.hpp"

namespace ho::device {
namespace {

void log_failure(const Status& status) {
  if (!status.ok()) {
    log_debug("{}", status.message());
  }
}

}  // namespace

Result<Event> Event::create(const Device& device) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  EventHandle handle = nullptr;
  HORING_TRY(
      device.check("cuEventCreate", device.driver().event_create(&handle, kEventDisableTiming)));
  return Event(device.shared_from_this(), handle);
}

Event::Event(Event&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy();
    device_ = std::move(other.device_);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

Event::~Event() {
  destroy();
}

void Event::destroy() noexcept {
  if (handle_ == nullptr) {
    return;
  }
  const auto current = CurrentContext::enter(*device_);
  if (current.ok()) {
    log_failure(device_->check("cuEventDestroy", device_->driver().event_destroy(handle_)));
  }
  handle_ = nullptr;
}

Status Event::record(StreamHandle stream) const {
  return device_->check("cuEventRecord", device_->driver().event_record(handle_, stream));
}

Result<bool> Event::passed() const {
  const DriverResult result = device_->driver().event_query(handle_);
  if (result == kNotReady) {
    return false;
  }
  HORING_TRY(device_->check("cuEventQuery", result));
  return true;
}

Result<Stream> Stream::create(const Device& device) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  StreamHandle handle = nullptr;
  // What waits for the network goes before what the program computes meanwhile.
  int least = 0;
  int greatest = 0;
  HORING_TRY(device.check("cuCtxGetStreamPriorityRange",
                          device.driver().context_priorities(&least, &greatest)));
  HORING_TRY(device.check("cuStreamCreateWithPriority",
                          device.driver().stream_create(&handle, kStreamNonBlocking, greatest)));
  return Stream(device.shared_from_this(), handle);
}

Stream::Stream(Stream&& other) noexcept
    : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    destroy();
    device_ = std::move(other.device_);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

Stream::~Stream() {
  destroy();
}

// Waits first: the memory that the stream's work uses is freed next.
void Stream::destroy() noexcept {
  if (handle_ == nullptr) {
    return;
  }
  const auto current = CurrentContext::enter(*device_);
  if (current.ok()) {
    const Driver& driver = device_->driver();
    log_failure(device_->check("cuStreamSynchronize", driver.stream_synchronize(handle_)));
    log_failure(device_->check("cuStreamDestroy", driver.stream_destroy(handle_)));
  }
  handle_ = nullptr;
}

Status Stream::copy(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  return device_->check(
      "cuMemcpyAsync",
      device_->driver().copy_async(address_of(to), address_of(from), bytes, handle_));
}

Status Stream::wait(const Event& event) const {
  return wait(event.handle());
}

Status Stream::wait(EventHandle event) const {
  return device_->check("cuStreamWaitEvent",
                        device_->driver().stream_wait_event(handle_, event, 0));
}

Status Stream::call_on_host(HostFunction function, void* argument) const {
  return device_->check("cuLaunchHostFunc",
                        device_->driver().stream_host_function(handle_, function, argument));
}

}  // namespace ho::device
