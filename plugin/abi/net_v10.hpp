// Net plugins, version 10 (since NCCL 2.26): traffic classes and profiler handles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v9.hpp"

namespace nccl_abi::v10 {

using v9::kMaxDevicesPerNic;
using v9::NetProperties;
using v9::VirtualDeviceProperties;

struct CommConfig {
  int trafficClass;
};
static_assert(sizeof(CommConfig) == 4);

using Net = v9::BasicNet<
    Result(DebugLogger logger, ProfilerCallback profiler),
    Result(
        int device, CommConfig* config, void* handle, void** sender, DeviceHandle** device_handle),
    ProfiledSend,
    ProfiledReceive>;
static_assert(net_in_place<Net>());
static_assert(offsetof(Net, makeVDevice) == 19 * sizeof(void*));
static_assert(sizeof(Net) == 160);

}  // namespace nccl_abi::v10
