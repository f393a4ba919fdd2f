// Net plugins, version 11 (since NCCL 2.28): a context per communicator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v10.hpp"

namespace nccl_abi::v11 {

using v10::CommConfig;
using v9::kMaxDevicesPerNic;
using v9::VirtualDeviceProperties;

// Hints on how a communicator uses the net; we never read it.
struct NetAttr;

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
  int maxMultiRequestSize;
};
static_assert(properties_in_place<NetProperties>());
static_assert(offsetof(NetProperties, maxP2pBytes) == 88);
static_assert(offsetof(NetProperties, maxCollBytes) == 96);
static_assert(offsetof(NetProperties, maxMultiRequestSize) == 104);
static_assert(sizeof(NetProperties) == 112);

// v12's table differs in what these two are.
template <typename Properties, typename VirtualDevice>
struct BasicNet {
  const char* name;
  Result (*init)(void** context,
                 uint64_t communicator_id,
                 CommConfig* config,
                 DebugLogger logger,
                 ProfilerCallback profiler);
  Result (*devices)(int* count);
  Result (*getProperties)(int device, Properties* properties);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  // This and accept() do not wait: a null connection means not yet.
  Result (*connect)(
      void* context, int device, void* handle, void** sender, DeviceHandle** device_handle);
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
  Result (*makeVDevice)(int* device, VirtualDevice* properties);
  Result (*finalize)(void* context);
  Result (*setNetAttr)(void* context, NetAttr* attributes);  // may be null
};
using Net = BasicNet<NetProperties, VirtualDeviceProperties>;
static_assert(net_in_place<Net>());
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(offsetof(Net, finalize) == 20 * sizeof(void*));
static_assert(offsetof(Net, setNetAttr) == 21 * sizeof(void*));
static_assert(sizeof(Net) == 176);

}  // namespace nccl_abi::v11
