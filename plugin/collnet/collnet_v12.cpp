// NCCL 2.30: devices say their rail.
#include "abi/collnet_v12.hpp"

#include "collnet/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v12::CollNet ncclCollNetPlugin_v12;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v12::CollNet;

Result init(void** context, uint64_t communicator, DebugLogger logger) {
  return offer_virtual_devices(
      ncclCollNetPlugin_v12,
      every_coll_net::init_context("collnet v12", logger, communicator, context));
}

constexpr CollNet make_table() {
  CollNet table{};
  fill_common_collnet(table);
  table.init = init;
  table.iallreduce = every_coll_net::iallreduce;
  table.finalize = every_coll_net::finalize;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v12::CollNet ncclCollNetPlugin_v12 = ho::plugin::make_table();
