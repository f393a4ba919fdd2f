// Net plugins, version 8 (looked up since NCCL 2.20).
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"

namespace nccl_abi::v8 {

struct NetProperties {
  char* name;
  char* pciPath;    // in sysfs; null where there is none
  uint64_t guid;    // devices of equal guid and port share bandwidth in NCCL's search
  int ptrSupport;   // kPointer* bits
  int regIsGlobal;  // a registration holds for all connections of the device
  int speed;        // Mbit/s
  int port;
  float latency;  // us
  int maxComms;
  int maxRecvs;  // buffers of one irecv
  NetDeviceType netDeviceType;
  int netDeviceVersion;
};
static_assert(offsetof(NetProperties, name) == 0);
static_assert(offsetof(NetProperties, pciPath) == 8);
static_assert(offsetof(NetProperties, guid) == 16);
static_assert(offsetof(NetProperties, ptrSupport) == 24);
static_assert(offsetof(NetProperties, regIsGlobal) == 28);
static_assert(offsetof(NetProperties, speed) == 32);
static_assert(offsetof(NetProperties, port) == 36);
static_assert(offsetof(NetProperties, latency) == 40);
static_assert(offsetof(NetProperties, maxComms) == 44);
static_assert(offsetof(NetProperties, maxRecvs) == 48);
static_assert(offsetof(NetProperties, netDeviceType) == 52);
static_assert(offsetof(NetProperties, netDeviceVersion) == 56);
static_assert(sizeof(NetProperties) == 64);

struct Net {
  const char* name;
  Result (*init)(DebugLogger logger);
  Result (*devices)(int* count);
  Result (*getProperties)(int device, NetProperties* properties);
  Result (*listen)(int device, void* handle, void** listener);
  // This and accept() do not wait: a null connection means not yet.
  Result (*connect)(int device, void* handle, void** sender, DeviceHandle** device_handle);
  Result (*accept)(void* listener, void** receiver, DeviceHandle** device_handle);
  Result (*regMr)(void* connection, void* data, size_t size, int type, void** memory);
  RegisterDmaBuf* regMrDmaBuf;
  Result (*deregMr)(void* connection, void* memory);
  // In this and irecv a null request means not now, try again.
  Result (*isend)(void* sender, void* data, int size, int tag, void* memory, void** request);
  ReceiveInto<int>* irecv;
  Flush* iflush;
  Result (*test)(void* request, int* done, int* sizes);
  Result (*closeSend)(void* sender);
  Result (*closeRecv)(void* receiver);
  Result (*closeListen)(void* listener);
  // For devices that the GPU drives; null otherwise, as irecvConsumed.
  Result (*getDeviceMr)(void* connection, void* memory, void** device_memory);
  Result (*irecvConsumed)(void* receiver, int count, void* request);
};
static_assert(net_in_place<Net>());
static_assert(sizeof(Net) == 152);

}  // namespace nccl_abi::v8
