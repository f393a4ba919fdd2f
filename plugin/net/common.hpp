// What the net adapters of all versions do alike: calls that have had the same arguments since v8.
// An adapter copies fields; everything else is the driver's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

// Messages of one irecv, in any version.
inline constexpr size_t kMostGrouped = 8;

inline NetDriver& net() {
  return Plugin::instance().net();
}

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

}  // namespace every_version

// The members that are alike in every version's table.
template <typename Net>
constexpr void fill_common(Net& table, const char* name) {
  table.name = name;
  table.devices = every_version::devices;
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

// What the driver has beyond what must be there. NCCL reads the table after init.
template <typename Net>
void offer_extras(Net& table) {
  const NetDriver::Extras extras = net().extras();
  table.getDeviceMr = extras.device_memory ? every_version::device_memory : nullptr;
  table.irecvConsumed = extras.consumption ? every_version::consumed : nullptr;
}

}  // namespace ho::plugin
