// NCCL 2.28: a context per communicator.
#include "abi/collnet_v11.hpp"

#include "collnet/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v11::CollNet ncclCollNetPlugin_v11;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v11::CollNet;

Result init(void** context, uint64_t communicator, DebugLogger logger) {
  return offer_virtual_devices(
      ncclCollNetPlugin_v11,
      every_coll_net::init_context("collnet v11", logger, communicator, context));
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

constinit nccl_abi::v11::CollNet ncclCollNetPlugin_v11 = ho::plugin::make_table();
