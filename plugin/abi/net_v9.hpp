// Net plugins, version 9 (since NCCL 2.24): virtual devices, sizes as size_t.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"

namespace nccl_abi::v9 {

// The physical devices of a virtual one.
template <size_t max_devices>
struct BasicVirtualDevice {
  int ndevs;
  int devs[max_devices];
};

inline constexpr int kMaxDevicesPerNic = 4;
using VirtualDeviceProperties = BasicVirtualDevice<kMaxDevicesPerNic>;
static_assert(offsetof(VirtualDeviceProperties, devs) == 4);
static_assert(sizeof(VirtualDeviceProperties) == 20);

struct NetProperties {
  char* name;
  char* pciPath;    // in sysfs; null where there is none
  uint64_t guid;    // devices of equal guid and port share bandwidth in NCCL's search
  int ptrSupport;   // kPointer* bits
  int regIsGlobal;  // a registration holds for all connections of the device
  int forceFlush;   // flush even where the GPU needs none
  int speed;        // Mbit/s
  int port;
  float latency;  // us
  int maxComms;
  int maxRecvs;  // buffers of one irecv
  NetDeviceType netDeviceType;
  int netDeviceVersion;
  VirtualDeviceProperties vProps;
  size_t maxP2pBytes;
  size_t maxCollBytes;
};
static_assert(properties_in_place<NetProperties>());
static_assert(offsetof(NetProperties, maxP2pBytes) == 88);
static_assert(offsetof(NetProperties, maxCollBytes) == 96);
static_assert(sizeof(NetProperties) == 104);

// Of version 10 too.
template <typename Init, typename Connect, typename Send, typename Receive>
struct BasicNet {
  const char* name;
  Init* init;
  Result (*devices)(int* count);
  Result (*getProperties)(int device, NetProperties* properties);
  Result (*listen)(int device, void* handle, void** listener);
  // This and accept() do not wait: a null connection means not yet.
  Connect* connect;
  Result (*accept)(void* listener, void** receiver, DeviceHandle** device_handle);
  Result (*regMr)(void* connection, void* data, size_t size, int type, void** memory);
  RegisterDmaBuf* regMrDmaBuf;
  Result (*deregMr)(void* connection, void* memory);
  // In this and irecv a null request means not now, try again.
  Send* isend;
  Receive* irecv;
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

using Net =
    BasicNet<Result(DebugLogger logger),
             Result(int device, void* handle, void** sender, DeviceHandle** device_handle),
             Result(void* sender, void* data, size_t size, int tag, void* memory, void** request),
             ReceiveInto<size_t>>;
static_assert(net_in_place<Net>());
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(sizeof(Net) == 160);

}  // namespace nccl_abi::v9
