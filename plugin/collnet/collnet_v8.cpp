// NCCL 2.20: counts are int.
#include "abi/collnet_v8.hpp"

#include "collnet/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DataType;
using nccl_abi::DebugLogger;
using nccl_abi::ReduceOp;
using nccl_abi::Result;
using nccl_abi::v8::CollNet;

Result init(DebugLogger logger) {
  return every_coll_net::init_process("collnet v8", logger);
}

Result iallreduce(void* group,
                  void* send,
                  void* receive,
                  int count,
                  DataType type,
                  ReduceOp op,
                  void* send_memory,
                  void* receive_memory,
                  void** request) {
  return count < 0 ? Result::kInvalidArgument
                   : every_coll_net::iallreduce(group,
                                                send,
                                                receive,
                                                static_cast<size_t>(count),
                                                type,
                                                op,
                                                send_memory,
                                                receive_memory,
                                                request);
}

constexpr CollNet make_table() {
  CollNet table{};
  fill_common_collnet(table);
  table.init = init;
  table.iallreduce = iallreduce;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v8::CollNet ncclCollNetPlugin_v8;
constinit nccl_abi::v8::CollNet ncclCollNetPlugin_v8 = ho::plugin::make_table();
