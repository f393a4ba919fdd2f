// NCCL 2.24: counts are size_t.
#include "abi/collnet_v9.hpp"

#include "collnet/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v9::CollNet ncclCollNetPlugin_v9;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v9::CollNet;

Result init(DebugLogger logger) {
  return offer_virtual_devices(ncclCollNetPlugin_v9,
                               every_coll_net::init_process("collnet v9", logger));
}

constexpr CollNet make_table() {
  CollNet table{};
  fill_common_collnet(table);
  table.init = init;
  table.iallreduce = every_coll_net::iallreduce;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v9::CollNet ncclCollNetPlugin_v9 = ho::plugin::make_table();
