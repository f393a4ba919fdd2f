// NCCL 2.24: sizes are size_t, devices may be made of several.
#include "abi/net_v9.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v9::Net ncclNetPlugin_v9;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::Result;
using nccl_abi::v9::Net;
using nccl_abi::v9::NetProperties;
using nccl_abi::v9::VirtualDeviceProperties;

Result get_properties(int device, NetProperties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy_since_v9(device, from, *properties);
    }
    return reply;
  });
}

// This version knows no contexts: there is one for the process.
Result listen(int device, void* handle, void** listener) {
  return guarded([&] {
    return net().listen(Plugin::instance().process_context(false), device, handle, listener);
  });
}

Result connect(int device, void* handle, void** sender, DeviceHandle** device_handle) {
  return guarded([&] {
    void* of_device = nullptr;
    const Reply reply = net().connect(
        Plugin::instance().process_context(false), device, handle, sender, &of_device);
    if (device_handle != nullptr) {
      *device_handle = static_cast<DeviceHandle*>(of_device);
    }
    return reply;
  });
}

Result isend(void* sender, void* data, size_t size, int tag, void* memory, void** request) {
  return guarded([&] { return net().isend(sender, data, size, tag, memory, nullptr, request); });
}

Result irecv(void* receiver,
             int count,
             void** data,
             size_t* sizes,
             int* tags,
             void** memories,
             void** request) {
  return guarded(
      [&] { return net().irecv(receiver, count, data, sizes, tags, memories, nullptr, request); });
}

Result make_virtual_device(int* device, VirtualDeviceProperties* properties) {
  return guarded(
      [&] { return net().make_virtual_device(properties->devs, properties->ndevs, device); });
}

Result init(DebugLogger logger) {
  return guarded([&] {
    const Reply reply = start("net v9", logger);
    if (reply != Reply::kSuccess) {
      return reply;
    }
    offer_extras(ncclNetPlugin_v9);
    ncclNetPlugin_v9.makeVDevice = net().extras().virtual_devices ? make_virtual_device : nullptr;
    return Plugin::instance().open_process_context(false);
  });
}

Net make_table() {
  Net table{};
  fill_common(table, kNetName);
  table.init = init;
  table.getProperties = get_properties;
  table.listen = listen;
  table.connect = connect;
  table.isend = isend;
  table.irecv = irecv;
  return table;
}

}  // namespace
}  // namespace ho::plugin

nccl_abi::v9::Net ncclNetPlugin_v9 = ho::plugin::make_table();
