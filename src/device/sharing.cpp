#include "device/sharing.hpp"

#include <utility>

#include "base/log.hpp"

namespace ho::device {

Result<IpcMemory> export_memory(const Device& device, const DeviceMemory& memory) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  IpcMemory exported{};
  HORING_TRY(
      device.check("cuIpcGetMemHandle", device.driver().ipc_export(&exported, memory.address())));
  return exported;
}

Result<OpenedMemory> OpenedMemory::open(const Device& device, const IpcMemory& memory) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  DeviceAddress address = 0;
  HORING_TRY(device.check("cuIpcOpenMemHandle",
                          device.driver().ipc_open(&address, memory, kIpcLazyPeerAccess)));
  return OpenedMemory(device.shared_from_this(), address);
}

OpenedMemory::OpenedMemory(OpenedMemory&& other) noexcept
    : device_(std::move(other.device_)), address_(std::exchange(other.address_, 0)) {}

OpenedMemory::~OpenedMemory() {
  if (address_ == 0) {
    return;
  }
  const auto current = CurrentContext::enter(*device_);
  const Status status =
      current.ok() ? device_->check("cuIpcCloseMemHandle", device_->driver().ipc_close(address_))
                   : current.status();
  if (!status.ok()) {
    log_debug("{}", status.message());
  }
}

}  // namespace ho::device
