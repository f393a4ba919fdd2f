// States in a device's memory. Allocating waits for the device: set-up, and what is between steps.
//
// One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "on_device/device_operations.hpp"
#include "state/memory.hpp"

namespace paro {

class DeviceStateMemory final : public Memory {
 public:
  // Its first operations are of that stream; null is the default stream, and any outlives it.
  [[nodiscard]] static ho::Result<std::unique_ptr<DeviceStateMemory>> create(
      const std::shared_ptr<const ho::device::Device>& device,
      ho::device::StreamHandle stream,
      const DeviceOptions& options = {});

  // Zeroed before it returns; nullptr after a failure of operations, too.
  [[nodiscard]] void* allocate(size_t bytes) override;
  // Waits for all its streams. What others do with the memory is over.
  void release(void* address, size_t bytes) override;
  [[nodiscard]] const DeviceOperations& operations(size_t stream = 0) const override {
    return *operations_[stream < operations_.size() ? stream : 0];
  }
  [[nodiscard]] ho::Result<std::unique_ptr<Mark>> make_mark() override;
  void limit_waits(uint64_t timeout_ms) override;
  [[nodiscard]] std::string where() const override;
  // Of the driver, or of operations.
  [[nodiscard]] ho::Status failure() const override { return failure_; }

  // By place. Of the device: what was allocated here and not released, and what operations need.
  [[nodiscard]] size_t state_bytes() const { return state_bytes_; }
  [[nodiscard]] size_t scratch_bytes() const { return sum(&DeviceOperations::scratch_bytes); }
  // Of the host, pinned.
  [[nodiscard]] size_t pinned_bytes() const { return sum(&DeviceOperations::pinned_bytes); }

 private:
  using AllOperations = std::vector<std::unique_ptr<DeviceOperations>>;
  DeviceStateMemory(std::shared_ptr<const ho::device::Device> device,
                    std::vector<ho::device::Stream> own_streams,
                    AllOperations operations)
      : device_(std::move(device)),
        own_streams_(std::move(own_streams)),
        operations_(std::move(operations)) {}
  [[nodiscard]] size_t sum(size_t (DeviceOperations::*bytes)() const) const;
  void settle() const;

  const std::shared_ptr<const ho::device::Device> device_;
  const std::vector<ho::device::Stream> own_streams_;
  const AllOperations operations_;  // by stream, the caller's first
  std::map<void*, ho::device::DeviceMemory> allocated_;
  size_t state_bytes_ = 0;
  // Of the last allocation, at most one of them.
  ho::Status lack_;
  ho::Status failure_;
};

}  // namespace paro
