// NCCL 2.28: a context per communicator.
#include "abi/net_v11.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v11::Net ncclNetPlugin_v11;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::ProfilerCallback;
using nccl_abi::Result;
using nccl_abi::v11::CommConfig;
using nccl_abi::v11::Net;

Result init(void** context,
            uint64_t communicator,
            CommConfig* config,
            DebugLogger logger,
            ProfilerCallback profiler) {
  const int traffic_class = config == nullptr ? kNoTrafficClass : config->trafficClass;
  return init_context(
      ncclNetPlugin_v11, "net v11", {context, communicator, traffic_class, logger, profiler});
}

constexpr Net make_table() {
  Net table{};
  fill_common(table);
  table.init = init;
  table.connect = every_version::connect;
  table.isend = every_version::isend;
  table.irecv = every_version::irecv;
  table.finalize = every_version::finalize;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v11::Net ncclNetPlugin_v11 = ho::plugin::make_table();
