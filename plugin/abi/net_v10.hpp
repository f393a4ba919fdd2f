// Net plugins, version 10 (since NCCL 2.26): traffic classes and profiler handles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v9.hpp"

namespace nccl_abi::v10 {

inline constexpr const char* kNetSymbol = "ncclNetPlugin_v10";

using v9::kMaxDevicesPerNic;
using v9::NetProperties;
using v9::VirtualDeviceProperties;

struct CommConfig {
  int trafficClass;
};
static_assert(sizeof(CommConfig) == 4);

struct Net {
  const char* name;
  Result (*init)(DebugLogger logger, ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*getProperties)(int device, NetProperties* properties);
  Result (*listen)(int device, void* handle, void** listener);
  // This and accept() do not wait: a null connection means not yet.
  Result (*connect)(
      int device, CommConfig* config, void* handle, void** sender, DeviceHandle** device_handle);
  Result (*accept)(void* listener, void** receiver, DeviceHandle** device_handle);
  Result (*regMr)(void* connection, void* data, size_t size, int type, void** memory);
  RegisterDmaBuf* regMrDmaBuf;
  Result (*deregMr)(void* connection, void* memory);
  // In this and irecv a null request means not now, try again.
  ProfiledSend* isend;
  ProfiledReceive* irecv;
  Flush* iflush;
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sender);
  Result (*closeRecv)(void* receiver);
  Result (*closeListen)(void* listener);
  // For devices that the GPU drives; null otherwise, as irecvConsumed.
  Result (*getDeviceMr)(void* connection, void* memory, void** device_memory);
  Result (*irecvConsumed)(void* receiver, int count, void* request);
  // May be null: this device cannot be part of a virtual one.
  Result (*makeVDevice)(int* device, VirtualDeviceProperties* properties);
};
static_assert(net_in_place<Net>());
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(sizeof(Net) == 160);

}  // namespace nccl_abi::v10
