// Collnet plugins, version 12 (since NCCL 2.30): version 11 with the properties of net version 12.
#pragma once

#include <cstddef>

#include "abi/collnet_v11.hpp"
#include "abi/layout.hpp"
#include "abi/net_v12.hpp"

namespace nccl_abi::v12 {

using v11::Buffer;
using CollNet = v11::BasicCollNet<NetProperties, VirtualDeviceProperties>;
static_assert(coll_net_in_place<CollNet>());
static_assert(offsetof(CollNet, makeVDevice) == 17 * sizeof(void*));
static_assert(offsetof(CollNet, finalize) == 18 * sizeof(void*));
static_assert(sizeof(CollNet) == 152);

}  // namespace nccl_abi::v12
