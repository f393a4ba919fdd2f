// The device of one communicator, where this rank has one: which buffers of a call are its memory,
// when a call may touch them, and the links that carry them.
//
// It knows no engine. What a caller did wrong is kInvalidArgument or kUnsupported; any other error
// is the driver's, after which the communicator cannot go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/call_arguments.hpp"
#include "comm/call_shape.hpp"
#include "comm/configuration.hpp"
#include "comm/settings.hpp"
#include "device/device.hpp"
#include "device/work/work.hpp"
#include "exec/call.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/staged/shared_slots.hpp"
#include "transport/staged/staged_link.hpp"
#include "transport/transport.hpp"

namespace ho {

// Null where the rank is to have none.
[[nodiscard]] Result<std::shared_ptr<device::Device>> open_device(const CommunicatorConfig& config);

class CallDevice {
 public:
  // Null: there is none.
  explicit CallDevice(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}
  CallDevice(const CallDevice&) = delete;
  CallDevice& operator=(const CallDevice&) = delete;
  ~CallDevice() = default;

  // Before anything else of it but register_memory(). May wait for the device.
  [[nodiscard]] Status prepare(const CommunicatorSettings& settings,
                               GlobalRank self,
                               const ShmTransport& shm);

  [[nodiscard]] const std::shared_ptr<device::Device>& get() const { return device_; }
  [[nodiscard]] bool exists() const { return device_ != nullptr; }
  // Nothing: there is none.
  [[nodiscard]] std::optional<int> ordinal() const {
    return device_ == nullptr ? std::nullopt : std::optional(device_->ordinal());
  }
  // Null: there is no device.
  [[nodiscard]] device::Work* work() const { return work_.get(); }

  // Memory of the program's own that calls may have beside device memory, as pinned memory. Not
  // while one of them is under way.
  [[nodiscard]] Status register_memory(void* memory, size_t bytes) const;
  [[nodiscard]] Status deregister_memory(void* memory) const;

  // Which of the buffers are device memory, or why they cannot be. There is a device.
  [[nodiscard]] Result<DeviceBuffers> buffers_of(const CollectiveCall& call,
                                                 const BufferUse& use) const;
  // The same of one buffer. `name` begins an error.
  [[nodiscard]] Result<bool> is_device_memory(std::string_view name,
                                              const void* memory,
                                              uint64_t bytes) const;
  // What the stream has been given so far; nothing, where no buffer is device memory.
  [[nodiscard]] Result<std::optional<device::Event>> entry_of(const Call& call,
                                                              device::StreamHandle stream) const;
  // Not ok: the stream is captured into a graph.
  [[nodiscard]] Status check_not_captured(device::StreamHandle stream) const;
  // Around a link for host memory, where this rank has a device.
  [[nodiscard]] Result<Link*> staged(GlobalRank peer, Result<Link*> link);

 private:
  [[nodiscard]] Status choose_adder(const CommunicatorSettings& settings);
  [[nodiscard]] Result<device::PointerFacts> facts_of(const void* memory) const;

  const std::shared_ptr<device::Device> device_;
  // Links use the work, and that the slots.
  std::unique_ptr<SharedSlots> slots_;
  std::unique_ptr<device::Work> work_;
  bool adds_pinned_ = false;                             // see DeviceBuffers
  std::map<Link*, std::unique_ptr<StagedLink>> staged_;  // by the link inside
};

}  // namespace ho
