// Device memory that other processes of the host read, and what of theirs this process reads.
// All of this is set-up: the driver may wait for the device.
#pragma once

#include "device/device.hpp"

namespace ho::device {

// Names the memory for other processes, until it is freed: not before they have closed it. An error
// where the driver cannot share it.
[[nodiscard]] Result<IpcMemory> export_memory(const Device& device, const DeviceMemory& memory);

// Another process's memory. When it goes nothing reads it any more.
class OpenedMemory {
 public:
  // An error also where this process does not see the device that it lies on.
  [[nodiscard]] static Result<OpenedMemory> open(const Device& device, const IpcMemory& memory);
  [[nodiscard]] DeviceAddress address() const { return memory_->address; }

 private:
  struct Resource {
    std::shared_ptr<const Device> device;
    DeviceAddress address;
    void release() const noexcept;
  };
  explicit OpenedMemory(Resource memory) : memory_(std::move(memory)) {}
  Owned<Resource> memory_;
};

}  // namespace ho::device
