#include "device/sharing.hpp"

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
  return OpenedMemory(Resource{device.shared_from_this(), address});
}

void OpenedMemory::Resource::release() const noexcept {
  const auto current = CurrentContext::enter(*device);
  log_failure(current.ok()
                  ? device->check("cuIpcCloseMemHandle", device->driver().ipc_close(address))
                  : current.status());
}

}  // namespace ho::device
