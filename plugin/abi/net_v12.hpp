// Net plugins, version 12 (since NCCL 2.30): rails and planes, more devices per NIC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"
#include "abi/net_v11.hpp"

namespace nccl_abi::v12 {

inline constexpr const char* kNetSymbol = "ncclNetPlugin_v12";

using v11::CommConfig;
using v11::NetAttr;

inline constexpr int kMaxDevicesPerNic = 8;
// The physical devices of a virtual one.
struct VirtualDeviceProperties {
  int ndevs;
  int devs[kMaxDevicesPerNic];
};
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
static_assert(offsetof(NetProperties, name) == 0);
static_assert(offsetof(NetProperties, pciPath) == 8);
static_assert(offsetof(NetProperties, guid) == 16);
static_assert(offsetof(NetProperties, ptrSupport) == 24);
static_assert(offsetof(NetProperties, regIsGlobal) == 28);
static_assert(offsetof(NetProperties, forceFlush) == 32);
static_assert(offsetof(NetProperties, speed) == 36);
static_assert(offsetof(NetProperties, port) == 40);
static_assert(offsetof(NetProperties, latency) == 44);
static_assert(offsetof(NetProperties, maxComms) == 48);
static_assert(offsetof(NetProperties, maxRecvs) == 52);
static_assert(offsetof(NetProperties, netDeviceType) == 56);
static_assert(offsetof(NetProperties, netDeviceVersion) == 60);
static_assert(offsetof(NetProperties, vProps) == 64);
static_assert(offsetof(NetProperties, maxP2pBytes) == 104);
static_assert(offsetof(NetProperties, maxCollBytes) == 112);
static_assert(offsetof(NetProperties, maxMultiRequestSize) == 120);
static_assert(offsetof(NetProperties, railId) == 124);
static_assert(offsetof(NetProperties, planeId) == 126);
static_assert(sizeof(NetProperties) == 128);

using Net = v11::BasicNet<NetProperties, VirtualDeviceProperties>;
static_assert(offsetof(Net, name) == 0 * sizeof(void*));
static_assert(offsetof(Net, init) == 1 * sizeof(void*));
static_assert(offsetof(Net, devices) == 2 * sizeof(void*));
static_assert(offsetof(Net, getProperties) == 3 * sizeof(void*));
static_assert(offsetof(Net, listen) == 4 * sizeof(void*));
static_assert(offsetof(Net, connect) == 5 * sizeof(void*));
static_assert(offsetof(Net, accept) == 6 * sizeof(void*));
static_assert(offsetof(Net, regMr) == 7 * sizeof(void*));
static_assert(offsetof(Net, regMrDmaBuf) == 8 * sizeof(void*));
static_assert(offsetof(Net, deregMr) == 9 * sizeof(void*));
static_assert(offsetof(Net, isend) == 10 * sizeof(void*));
static_assert(offsetof(Net, irecv) == 11 * sizeof(void*));
static_assert(offsetof(Net, iflush) == 12 * sizeof(void*));
static_assert(offsetof(Net, test) == 13 * sizeof(void*));
static_assert(offsetof(Net, closeSend) == 14 * sizeof(void*));
static_assert(offsetof(Net, closeRecv) == 15 * sizeof(void*));
static_assert(offsetof(Net, closeListen) == 16 * sizeof(void*));
static_assert(offsetof(Net, getDeviceMr) == 17 * sizeof(void*));
static_assert(offsetof(Net, irecvConsumed) == 18 * sizeof(void*));
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(offsetof(Net, finalize) == 20 * sizeof(void*));
static_assert(offsetof(Net, setNetAttr) == 21 * sizeof(void*));
static_assert(sizeof(Net) == 176);

}  // namespace nccl_abi::v12
