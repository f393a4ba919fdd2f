// NCCL 2.28: a context per communicator.
#include "abi/net_v11.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v11::Net ncclNetPlugin_v11;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::ProfilerCallback;
using nccl_abi::Result;
using nccl_abi::v11::CommConfig;
using nccl_abi::v11::Net;
using nccl_abi::v11::NetAttr;
using nccl_abi::v11::NetProperties;
using nccl_abi::v11::VirtualDeviceProperties;

Result get_properties(int device, NetProperties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy_since_v9(device, from, *properties);
      properties->maxMultiRequestSize = from.max_multi_request_count;
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

Result listen(void* context, int device, void* handle, void** listener) {
  return guarded([&] { return net().listen(context, device, handle, listener); });
}

Result connect(
    void* context, int device, void* handle, void** sender, DeviceHandle** device_handle) {
  return guarded([&] {
    void* of_device = nullptr;
    const Reply reply = net().connect(context, device, handle, sender, &of_device);
    if (device_handle != nullptr) {
      *device_handle = static_cast<DeviceHandle*>(of_device);
    }
    return reply;
  });
}

// NCCL 2.28 finalizes also what failed to initialise: without a context.
Result finalize(void* context) {
  return guarded([&] { return context == nullptr ? Reply::kSuccess : net().close(context); });
}

Result set_attributes(void* context, NetAttr* attributes) {
  return guarded([&] { return net().set_attributes(context, attributes); });
}

Result init(void** context,
            uint64_t communicator_id,
            CommConfig* config,
            DebugLogger logger,
            ProfilerCallback /*profiler*/) {
  return guarded([&] {
    *context = nullptr;
    const Reply reply = start("net v11", logger);
    if (reply != Reply::kSuccess) {
      return reply;
    }
    offer_extras(ncclNetPlugin_v11);
    ncclNetPlugin_v11.makeVDevice = net().extras().virtual_devices ? make_virtual_device : nullptr;
    ncclNetPlugin_v11.setNetAttr = net().extras().attributes ? set_attributes : nullptr;
    const int traffic_class = config == nullptr ? -1 : config->trafficClass;
    return net().open(communicator_id, traffic_class, context);
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
  table.finalize = finalize;
  return table;
}

}  // namespace
}  // namespace ho::plugin

nccl_abi::v11::Net ncclNetPlugin_v11 = ho::plugin::make_table();
