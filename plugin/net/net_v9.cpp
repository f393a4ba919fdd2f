// NCCL 2.24: sizes are size_t, devices may be made of several.
#include "abi/net_v9.hpp"

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v9::Net ncclNetPlugin_v9;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v9::Net;

Result init(DebugLogger logger) {
  return init_process(ncclNetPlugin_v9, "net v9", logger);
}

constexpr Net make_table() {
  Net table{};
  fill_common(table);
  table.init = init;
  table.connect = every_version::connect;
  table.isend = every_version::isend;
  table.irecv = every_version::irecv;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v9::Net ncclNetPlugin_v9 = ho::plugin::make_table();
