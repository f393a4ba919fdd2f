// Net plugins, version 12 (since NCCL 2.30): rails and planes, more devices per NIC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v11.hpp"

namespace nccl_abi::v12 {

using v11::CommConfig;
using v11::NetAttr;

inline constexpr int kMaxDevicesPerNic = 8;
using VirtualDeviceProperties = v9::BasicVirtualDevice<kMaxDevicesPerNic>;
static_assert(offsetof(VirtualDeviceProperties, devs) == 4);
static_assert(sizeof(VirtualDeviceProperties) == 36);

inline constexpr int16_t kNetIdUndefined = -1;
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
  int16_t railId;   // or kNetIdUndefined
  int16_t planeId;  // or kNetIdUndefined
};
static_assert(properties_in_place<NetProperties>());
static_assert(offsetof(NetProperties, maxP2pBytes) == 104);
static_assert(offsetof(NetProperties, maxCollBytes) == 112);
static_assert(offsetof(NetProperties, maxMultiRequestSize) == 120);
static_assert(offsetof(NetProperties, railId) == 124);
static_assert(offsetof(NetProperties, planeId) == 126);
static_assert(sizeof(NetProperties) == 128);

using Net = v11::BasicNet<NetProperties, VirtualDeviceProperties>;
static_assert(net_in_place<Net>());
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(offsetof(Net, finalize) == 20 * sizeof(void*));
static_assert(offsetof(Net, setNetAttr) == 21 * sizeof(void*));
static_assert(sizeof(Net) == 176);

}  // namespace nccl_abi::v12
