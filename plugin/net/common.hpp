// What the net adapters of all versions do alike: calls that have had the same arguments since v8.
// An adapter copies fields; everything else is the driver's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"

namespace ho::plugin {

NetDriver& net();
Reply open_process_context(const Host& host);
Reply open_context(const NetDriver::Opening& opening, void** context);

// Calls that are alike in every version.
namespace every_version {

nccl_abi::Result devices(int* count);
nccl_abi::Result accept(void* listener, void** receiver, nccl_abi::DeviceHandle** device_handle);
nccl_abi::Result register_memory(void* comm, void* data, size_t size, int type, void** memory);
nccl_abi::Result register_dma_buf(
    void* comm, void* data, size_t size, int type, uint64_t offset, int descriptor, void** memory);
nccl_abi::Result deregister(void* comm, void* memory);
nccl_abi::Result iflush(
    void* receiver, int count, void** data, int* sizes, void** memories, void** request);
nccl_abi::Result test(void* request, int* done, int* sizes);
nccl_abi::Result close_send(void* comm);
nccl_abi::Result close_recv(void* comm);
nccl_abi::Result close_listen(void* listener);
nccl_abi::Result device_memory(void* comm, void* memory, void** of_device);
nccl_abi::Result consumed(void* receiver, int count, void* request);

// That name no context: there is one for the process.
nccl_abi::Result listen(int device, void* handle, void** listener);
nccl_abi::Result connect(int device,
                         void* handle,
                         void** sender,
                         nccl_abi::DeviceHandle** device_handle);
// And a traffic class, in v10.
nccl_abi::Result connect_classed(int device,
                                 int traffic_class,
                                 void* handle,
                                 void** sender,
                                 nccl_abi::DeviceHandle** device_handle);
// That name theirs, since v11.
nccl_abi::Result listen(void* context, int device, void* handle, void** listener);
nccl_abi::Result connect(
    void* context, int device, void* handle, void** sender, nccl_abi::DeviceHandle** device_handle);
nccl_abi::Result finalize(void* context);
// Since v9, and since v10 with the profiler's handles.
nccl_abi::Result isend(
    void* sender, void* data, size_t size, int tag, void* memory, void** request);
nccl_abi::Result isend(
    void* sender, void* data, size_t size, int tag, void* memory, void* profile, void** request);
nccl_abi::Result irecv(void* receiver,
                       int count,
                       void** data,
                       size_t* sizes,
                       int* tags,
                       void** memories,
                       void** request);
nccl_abi::Result irecv(void* receiver,
                       int count,
                       void** data,
                       size_t* sizes,
                       int* tags,
                       void** memories,
                       void** profiles,
                       void** request);

template <typename Properties>
nccl_abi::Result get_properties(int device, Properties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy(device, from, *properties);
    }
    return reply;
  });
}

template <typename Attributes>
nccl_abi::Result set_attributes(void* context, Attributes* attributes) {
  return guarded([&] { return net().set_attributes(context, attributes); });
}

template <typename Properties>
nccl_abi::Result make_virtual_device(int* device, Properties* properties) {
  return guarded(
      [&] { return net().make_virtual_device(properties->devs, properties->ndevs, device); });
}

}  // namespace every_version

// The members that are alike in every version's table.
template <typename Net>
constexpr void fill_common(Net& table) {
  table.name = kNetName;
  table.devices = every_version::devices;
  table.getProperties = every_version::get_properties;
  table.listen = every_version::listen;
  table.accept = every_version::accept;
  table.regMr = every_version::register_memory;
  table.regMrDmaBuf = every_version::register_dma_buf;
  table.deregMr = every_version::deregister;
  table.iflush = every_version::iflush;
  table.test = every_version::test;
  table.closeSend = every_version::close_send;
  table.closeRecv = every_version::close_recv;
  table.closeListen = every_version::close_listen;
}

// What the driver has beyond what must be there, once it is open. NCCL reads the table after init.
template <typename Net>
void offer_extras(Net& table) {
  const NetDriver::Extras extras = net().extras();
  offer(table.getDeviceMr, extras.device_memory, every_version::device_memory);
  offer(table.irecvConsumed, extras.consumption, every_version::consumed);
  if constexpr (requires { table.makeVDevice; }) {
    offer(table.makeVDevice, extras.virtual_devices, every_version::make_virtual_device);
  }
  if constexpr (requires { table.setNetAttr; }) {
    offer(table.setNetAttr, extras.attributes, every_version::set_attributes);
  }
}

// Of a table whose version knows no contexts.
template <typename Net>
nccl_abi::Result init_process(Net& table,
                              const char* interface,
                              nccl_abi::DebugLogger logger,
                              nccl_abi::ProfilerCallback profiler = nullptr) {
  return guarded([&] {
    Reply reply = start(interface, logger);
    if (reply == Reply::kSuccess) {
      reply = open_process_context(host_of(logger, profiler));
    }
    if (reply == Reply::kSuccess) {
      offer_extras(table);
    }
    return reply;
  });
}

// What an init with a context is given.
struct ContextRequest {
  void** context = nullptr;
  uint64_t communicator = 0;
  int traffic_class = kNoTrafficClass;
  nccl_abi::DebugLogger logger = nullptr;
  nccl_abi::ProfilerCallback profiler = nullptr;
};

template <typename Net>
nccl_abi::Result init_context(Net& table, const char* interface, const ContextRequest& wanted) {
  return guarded([&] {
    *wanted.context = nullptr;
    Reply reply = start(interface, wanted.logger);
    if (reply == Reply::kSuccess) {
      NetDriver::Opening opening;
      opening.comm_id = wanted.communicator;
      opening.traffic_class = wanted.traffic_class;
      opening.host = host_of(wanted.logger, wanted.profiler);
      reply = open_context(opening, wanted.context);
    }
    if (reply == Reply::kSuccess) {
      offer_extras(table);
    }
    return reply;
  });
}

}  // namespace ho::plugin
