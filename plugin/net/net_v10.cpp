// NCCL 2.26: with the profiler's handles, and a traffic class per connection.
#include "abi/net_v10.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v10::Net ncclNetPlugin_v10;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::ProfilerCallback;
using nccl_abi::Result;
using nccl_abi::v10::CommConfig;
using nccl_abi::v10::Net;
using nccl_abi::v10::NetProperties;
using nccl_abi::v10::VirtualDeviceProperties;

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

Result connect(
    int device, CommConfig* /*config*/, void* handle, void** sender, DeviceHandle** device_handle) {
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

Result isend(
    void* sender, void* data, size_t size, int tag, void* memory, void* profile, void** request) {
  return guarded([&] { return net().isend(sender, data, size, tag, memory, profile, request); });
}

Result irecv(void* receiver,
             int count,
             void** data,
             size_t* sizes,
             int* tags,
             void** memories,
             void** profiles,
             void** request) {
  return guarded(
      [&] { return net().irecv(receiver, count, data, sizes, tags, memories, profiles, request); });
}

Result make_virtual_device(int* device, VirtualDeviceProperties* properties) {
  return guarded(
      [&] { return net().make_virtual_device(properties->devs, properties->ndevs, device); });
}

Result init(DebugLogger logger, ProfilerCallback /*profiler*/) {
  return guarded([&] {
    const Reply reply = start("net v10", logger);
    if (reply != Reply::kSuccess) {
      return reply;
    }
    offer_extras(ncclNetPlugin_v10);
    ncclNetPlugin_v10.makeVDevice = net().extras().virtual_devices ? make_virtual_device : nullptr;
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

nccl_abi::v10::Net ncclNetPlugin_v10 = ho::plugin::make_table();
