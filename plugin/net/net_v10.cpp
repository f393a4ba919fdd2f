// NCCL 2.26: with the profiler's handles, and a traffic class per connection.
#include "abi/net_v10.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v10::Net ncclNetPlugin_v10;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::ProfilerCallback;
using nccl_abi::Result;
using nccl_abi::v10::CommConfig;
using nccl_abi::v10::Net;

Result init(DebugLogger logger, ProfilerCallback profiler) {
  return init_process(ncclNetPlugin_v10, "net v10", logger, profiler);
}

Result connect(
    int device, CommConfig* config, void* handle, void** sender, DeviceHandle** device_handle) {
  const int traffic_class = config == nullptr ? kNoTrafficClass : config->trafficClass;
  return every_version::connect_classed(device, traffic_class, handle, sender, device_handle);
}

constexpr Net make_table() {
  Net table{};
  fill_common(table);
  table.init = init;
  table.connect = connect;
  table.isend = every_version::isend;
  table.irecv = every_version::irecv;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v10::Net ncclNetPlugin_v10 = ho::plugin::make_table();
