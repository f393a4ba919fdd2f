#include "net/common.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "core/driver/turned_off.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

NetDriver& net() {
  return Plugin::instance().net();
}

Reply open_context(int version,
                   nccl_abi::DebugLogger logger,
                   nccl_abi::ProfilerCallback profiler,
                   NetDriver::Opening opening,
                   void** context) {
  if (context != nullptr) {
    *context = nullptr;
  }
  if (const Reply reply = start("net v" + std::to_string(version), logger);
      reply != Reply::kSuccess) {
    return reply;
  }
  opening.host = host_of(logger, profiler);
  return context == nullptr ? Plugin::instance().open_process_context(opening.host, false)
                            : Plugin::instance().open_net(opening, context);
}

}  // namespace ho::plugin

namespace ho::plugin::every_version {

using nccl_abi::DeviceHandle;
using nccl_abi::Result;

Result accept(void* listener, void** receiver, DeviceHandle** device_handle) {
  return guarded([&] {
    void* of_device = nullptr;
    const Reply reply = net().accept(listener, receiver, &of_device);
    if (device_handle != nullptr) {
      *device_handle = static_cast<DeviceHandle*>(of_device);
    }
    return reply;
  });
}

Result register_dma_buf(
    void* comm, void* data, size_t size, int type, uint64_t offset, int descriptor, void** memory) {
  return guarded([&] {
    return net().register_dma_buf(comm, {data, size, type, offset, descriptor}, memory);
  });
}

Result iflush(void* receiver, int count, void** data, int* sizes, void** memories, void** request) {
  return guarded([&] { return net().iflush(receiver, {count, data, sizes, memories}, request); });
}

namespace {

Reply connect_in(void* context,
                 int device,
                 int traffic_class,
                 void* handle,
                 void** sender,
                 DeviceHandle** device_handle) {
  // Whatever network is below: the handle is of none.
  if (const Status off = check_not_off({static_cast<std::byte*>(handle), kHandleBytes});
      !off.ok()) {
    log_error("connect: {}", off.message());
    return reply_of(off.code());
  }
  void* of_device = nullptr;
  const Reply reply = net().connect(context, device, traffic_class, handle, sender, &of_device);
  if (device_handle != nullptr) {
    *device_handle = static_cast<DeviceHandle*>(of_device);
  }
  return reply;
}

}  // namespace

Result listen(int device, void* handle, void** listener) {
  return listen(Plugin::instance().process_context(false), device, handle, listener);
}

Result listen(void* context, int device, void* handle, void** listener) {
  return guarded([&] { return net().listen(context, device, handle, listener); });
}

Result connect(int device, void* handle, void** sender, DeviceHandle** device_handle) {
  return connect(Plugin::instance().process_context(false), device, handle, sender, device_handle);
}

Result connect_classed(
    int device, int traffic_class, void* handle, void** sender, DeviceHandle** device_handle) {
  return guarded([&] {
    void* const context = Plugin::instance().process_context(false);
    return connect_in(context, device, traffic_class, handle, sender, device_handle);
  });
}

Result connect(
    void* context, int device, void* handle, void** sender, DeviceHandle** device_handle) {
  return guarded(
      [&] { return connect_in(context, device, kNoTrafficClass, handle, sender, device_handle); });
}

// NCCL 2.28 finalizes also what failed to initialise: without a context.
Result finalize(void* context) {
  return guarded(
      [&] { return context == nullptr ? Reply::kSuccess : Plugin::instance().close_net(context); });
}

Result isend(void* sender, void* data, int size, int tag, void* memory, void** request) {
  return size < 0 ? Result::kInvalidArgument
                  : isend(sender, data, static_cast<size_t>(size), tag, memory, request);
}

Result isend(void* sender, void* data, size_t size, int tag, void* memory, void** request) {
  return isend(sender, data, size, tag, memory, nullptr, request);
}

Result isend(
    void* sender, void* data, size_t size, int tag, void* memory, void* profile, void** request) {
  return guarded([&] { return net().isend(sender, {data, size, tag, memory, profile}, request); });
}

Result irecv(void* receiver,
             int count,
             void** data,
             int* sizes,
             int* tags,
             void** memories,
             void** request) {
  std::array<size_t, kMaxGrouped> bytes{};
  if (count < 1 || static_cast<size_t>(count) > bytes.size() ||
      std::any_of(sizes, sizes + count, [](int size) { return size < 0; })) {
    return Result::kInvalidArgument;
  }
  std::copy_n(sizes, count, bytes.begin());
  *request = nullptr;  // v8 knows no completion that may be left out
  return irecv(receiver, count, data, bytes.data(), tags, memories, request);
}

Result irecv(void* receiver,
             int count,
             void** data,
             size_t* sizes,
             int* tags,
             void** memories,
             void** request) {
  return irecv(receiver, count, data, sizes, tags, memories, nullptr, request);
}

Result irecv(void* receiver,
             int count,
             void** data,
             size_t* sizes,
             int* tags,
             void** memories,
             void** profiles,
             void** request) {
  return guarded([&] {
    return net().irecv(receiver, {count, data, sizes, tags, memories, profiles}, request);
  });
}

}  // namespace ho::plugin::every_version
