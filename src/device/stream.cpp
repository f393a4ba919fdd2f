#include "device/address.hpp"
#include "device/device.hpp"

namespace ho::device {

Result<Event> Event::create(const Device& device) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  EventHandle handle = nullptr;
  HORING_TRY(
      device.check("cuEventCreate", device.driver().event_create(&handle, kEventDisableTiming)));
  return Event(Resource{device.shared_from_this(), handle});
}

void Event::Resource::release() const noexcept {
  if (device->is_left_behind()) {
    return;
  }
  const auto current = CurrentContext::enter(*device);
  if (current.ok()) {
    log_failure(device->check("cuEventDestroy", device->driver().event_destroy(handle)));
  }
}

Status Event::record(StreamHandle stream) const {
  return event_->device->check("cuEventRecord",
                               event_->device->driver().event_record(event_->handle, stream));
}

Result<bool> Event::passed() const {
  const DriverResult result = event_->device->driver().event_query(event_->handle);
  if (result == kNotReady) {
    return false;
  }
  HORING_TRY(event_->device->check("cuEventQuery", result));
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
  return Stream(Resource{device.shared_from_this(), handle});
}

// Waits first: the memory that the stream's work uses is freed next.
void Stream::Resource::release() const noexcept {
  if (device->is_left_behind()) {
    return;
  }
  const auto current = CurrentContext::enter(*device);
  if (current.ok()) {
    const Driver& driver = device->driver();
    log_failure(device->check("cuStreamSynchronize", driver.stream_synchronize(handle)));
    log_failure(device->check("cuStreamDestroy", driver.stream_destroy(handle)));
  }
}

Status Stream::copy(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  return stream_->device->check("cuMemcpyAsync",
                                stream_->device->driver().copy_async(
                                    address_of(to), address_of(from), bytes, stream_->handle));
}

Status Stream::wait(const Event& event) const {
  return wait(event.handle());
}

Status Stream::wait(EventHandle event) const {
  return stream_->device->check(
      "cuStreamWaitEvent", stream_->device->driver().stream_wait_event(stream_->handle, event, 0));
}

Status Stream::call_on_host(HostFunction function, void* argument) const {
  return stream_->device->check(
      "cuLaunchHostFunc",
      stream_->device->driver().stream_host_function(stream_->handle, function, argument));
}

}  // namespace ho::device
