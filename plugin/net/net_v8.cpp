// NCCL 2.20: sizes are int.
#include "abi/net_v8.hpp"

#include <array>

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v8::Net ncclNetPlugin_v8;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::Result;
using nccl_abi::v8::Net;
using nccl_abi::v8::NetProperties;

Result get_properties(int device, NetProperties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy_common(from, *properties);
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

Result isend(void* sender, void* data, int size, int tag, void* memory, void** request) {
  return guarded([&] {
    if (size < 0) {
      return Reply::kInvalidArgument;
    }
    return net().isend(sender, data, static_cast<size_t>(size), tag, memory, nullptr, request);
  });
}

Result irecv(void* receiver,
             int count,
             void** data,
             int* sizes,
             int* tags,
             void** memories,
             void** request) {
  return guarded([&] {
    std::array<size_t, kMostGrouped> bytes{};
    if (count < 1 || static_cast<size_t>(count) > bytes.size()) {
      return Reply::kInvalidArgument;
    }
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      if (sizes[i] < 0) {
        return Reply::kInvalidArgument;
      }
      bytes[i] = static_cast<size_t>(sizes[i]);
    }
    *request = nullptr;
    return net().irecv(receiver, count, data, bytes.data(), tags, memories, nullptr, request);
  });
}

Result init(DebugLogger logger) {
  return guarded([&] {
    const Reply reply = start("net v8", logger);
    if (reply != Reply::kSuccess) {
      return reply;
    }
    offer_extras(ncclNetPlugin_v8);
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

nccl_abi::v8::Net ncclNetPlugin_v8 = ho::plugin::make_table();
