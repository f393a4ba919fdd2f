#include "net/common.hpp"

#include "base/log.hpp"
#include "core/driver/turned_off.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

NetDriver& net() {
  return Plugin::instance().net();
}

Reply open_process_context(const Host& host) {
  return Plugin::instance().open_process_context(host, false);
}

Reply open_context(const NetDriver::Opening& opening, void** context) {
  return Plugin::instance().open_net(opening, context);
}

}  // namespace ho::plugin

namespace ho::plugin::every_version {

using nccl_abi::DeviceHandle;
using nccl_abi::Result;

Result devices(int* count) {
  return guarded([&] { return net().device_count(count); });
}

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

Result register_memory(void* comm, void* data, size_t size, int type, void** memory) {
  return guarded([&] { return net().register_memory(comm, data, size, type, memory); });
}

Result register_dma_buf(
    void* comm, void* data, size_t size, int type, uint64_t offset, int descriptor, void** memory) {
  return guarded(
      [&] { return net().register_dma_buf(comm, data, size, type, offset, descriptor, memory); });
}

Result deregister(void* comm, void* memory) {
  return guarded([&] { return net().deregister(comm, memory); });
}

Result iflush(void* receiver, int count, void** data, int* sizes, void** memories, void** request) {
  return guarded([&] { return net().iflush(receiver, count, data, sizes, memories, request); });
}

Result test(void* request, int* done, int* sizes) {
  return guarded([&] { return net().test(request, done, sizes); });
}

Result close_send(void* comm) {
  return guarded([&] { return net().close_send(comm); });
}

Result close_recv(void* comm) {
  return guarded([&] { return net().close_recv(comm); });
}

Result close_listen(void* listener) {
  return guarded([&] { return net().close_listen(listener); });
}

Result device_memory(void* comm, void* memory, void** of_device) {
  return guarded([&] { return net().device_memory(comm, memory, of_device); });
}

Result consumed(void* receiver, int count, void* request) {
  return guarded([&] { return net().consumed(receiver, count, request); });
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

Result isend(void* sender, void* data, size_t size, int tag, void* memory, void** request) {
  return isend(sender, data, size, tag, memory, nullptr, request);
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
  return guarded(
      [&] { return net().irecv(receiver, count, data, sizes, tags, memories, profiles, request); });
}

}  // namespace ho::plugin::every_version
