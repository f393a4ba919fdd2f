// NCCL 2.26: v9's table under another name.
#include "abi/collnet_v10.hpp"

#include "collnet/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v10::CollNet ncclCollNetPlugin_v10;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v10::CollNet;

Result init(DebugLogger logger) {
  return offer_virtual_devices(ncclCollNetPlugin_v10,
                               every_coll_net::init_process("collnet v10", logger));
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

constinit nccl_abi::v10::CollNet ncclCollNetPlugin_v10 = ho::plugin::make_table();
