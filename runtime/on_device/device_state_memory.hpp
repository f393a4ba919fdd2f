// States in a device's memory. Allocating waits for the device: set-up, and what is between steps.
//
// One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "on_device/device_operations.hpp"
#include "state/memory.hpp"

namespace paro {

class DeviceStateMemory final : public Memory {
 public:
  // Its operations are of that stream; null is the default stream, and any outlives it. Other
  // streams have DeviceOperations of their own.
  [[nodiscard]] static ho::Result<std::unique_ptr<DeviceStateMemory>> create(
      const std::shared_ptr<const ho::device::Device>& device,
      ho::device::StreamHandle stream,
      const DeviceOptions& options = {});

  // Zeroed before it returns; nullptr after a failure of operations, too.
  [[nodiscard]] void* allocate(size_t bytes) override;
  // Waits for its own stream. What other streams do with the memory is over.
  void release(void* address, size_t bytes) override;
  [[nodiscard]] const DeviceOperations& operations() const override { return *operations_; }
  [[nodiscard]] std::string where() const override;
  // Of the driver, or of operations.
  [[nodiscard]] ho::Status failure() const override { return failure_; }

  // By place. Of the device: what was allocated here and not released, and what operations need.
  [[nodiscard]] size_t state_bytes() const { return state_bytes_; }
  [[nodiscard]] size_t scratch_bytes() const { return operations_->scratch_bytes(); }
  // Of the host, pinned.
  [[nodiscard]] size_t pinned_bytes() const { return operations_->pinned_bytes(); }

 private:
  DeviceStateMemory(std::shared_ptr<const ho::device::Device> device,
                    std::unique_ptr<DeviceOperations> operations)
      : device_(std::move(device)), operations_(std::move(operations)) {}

  const std::shared_ptr<const ho::device::Device> device_;
  const std::unique_ptr<DeviceOperations> operations_;
  std::map<void*, ho::device::DeviceMemory> allocated_;
  size_t state_bytes_ = 0;
  // Of the last allocation, at most one of them.
  ho::Status lack_;
  ho::Status failure_;
};

}  // namespace paro
