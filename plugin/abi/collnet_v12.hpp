// Collnet plugins, version 12 (since NCCL 2.30): version 11 with the properties of net version 12.
#pragma once

#include <cstddef>

#include "abi/collnet_v11.hpp"
#include "abi/net_v12.hpp"

namespace nccl_abi::v12 {

inline constexpr const char* kCollNetSymbol = "ncclCollNetPlugin_v12";

using v11::Buffer;
using CollNet = v11::BasicCollNet<NetProperties, VirtualDeviceProperties>;
static_assert(offsetof(CollNet, name) == 0 * sizeof(void*));
static_assert(offsetof(CollNet, init) == 1 * sizeof(void*));
static_assert(offsetof(CollNet, devices) == 2 * sizeof(void*));
static_assert(offsetof(CollNet, getProperties) == 3 * sizeof(void*));
static_assert(offsetof(CollNet, listen) == 4 * sizeof(void*));
static_assert(offsetof(CollNet, connect) == 5 * sizeof(void*));
static_assert(offsetof(CollNet, reduceSupport) == 6 * sizeof(void*));
static_assert(offsetof(CollNet, regMr) == 7 * sizeof(void*));
static_assert(offsetof(CollNet, regMrDmaBuf) == 8 * sizeof(void*));
static_assert(offsetof(CollNet, deregMr) == 9 * sizeof(void*));
static_assert(offsetof(CollNet, iallreduce) == 10 * sizeof(void*));
static_assert(offsetof(CollNet, iallgather) == 11 * sizeof(void*));
static_assert(offsetof(CollNet, ireducescatter) == 12 * sizeof(void*));
static_assert(offsetof(CollNet, iflush) == 13 * sizeof(void*));
static_assert(offsetof(CollNet, test) == 14 * sizeof(void*));
static_assert(offsetof(CollNet, closeColl) == 15 * sizeof(void*));
static_assert(offsetof(CollNet, closeListen) == 16 * sizeof(void*));
static_assert(offsetof(CollNet, makeVDevice) == 17 * sizeof(void*));
static_assert(offsetof(CollNet, finalize) == 18 * sizeof(void*));
static_assert(sizeof(CollNet) == 152);

}  // namespace nccl_abi::v12
