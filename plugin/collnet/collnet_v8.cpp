// NCCL 2.20: counts are int.
#include "abi/collnet_v8.hpp"

#include "collnet/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DataType;
using nccl_abi::DebugLogger;
using nccl_abi::ReduceOp;
using nccl_abi::Result;
using nccl_abi::v8::Buffer;
using nccl_abi::v8::CollNet;
using nccl_abi::v8::NetProperties;

Result get_properties(int device, NetProperties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = coll_net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy_common(from, *properties);
    }
    return reply;
  });
}

// This version knows no contexts: there is one for the process.
Result init(DebugLogger logger) {
  return guarded([&] {
    const Reply reply = start("collnet v8", logger);
    return reply != Reply::kSuccess ? reply : Plugin::instance().open_process_context(true);
  });
}

Result listen(int device, void* handle, void** listener) {
  return guarded([&] {
    return coll_net().listen(Plugin::instance().process_context(true), device, handle, listener);
  });
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
  if (count < 0) {
    return Result::kInvalidArgument;
  }
  return every_coll_net::iallreduce(group,
                                    send,
                                    receive,
                                    static_cast<size_t>(count),
                                    type,
                                    op,
                                    send_memory,
                                    receive_memory,
                                    request);
}

Result iallgather(void* group,
                  void* send,
                  int part_count,
                  Buffer* receive_parts,
                  size_t bytes_per_rank,
                  size_t window_offset,
                  size_t window_bytes,
                  void* send_memory,
                  void** request) {
  return every_coll_net::iallgather(group,
                                    send,
                                    part_count,
                                    part_of(receive_parts),
                                    bytes_per_rank,
                                    window_offset,
                                    window_bytes,
                                    send_memory,
                                    request);
}

Result ireducescatter(void* group,
                      int part_count,
                      Buffer* send_parts,
                      void* receive,
                      size_t bytes_per_rank,
                      size_t window_offset,
                      size_t window_bytes,
                      DataType type,
                      ReduceOp op,
                      void* receive_memory,
                      void** request) {
  return every_coll_net::ireducescatter(group,
                                        part_count,
                                        part_of(send_parts),
                                        receive,
                                        bytes_per_rank,
                                        window_offset,
                                        window_bytes,
                                        type,
                                        op,
                                        receive_memory,
                                        request);
}

CollNet make_table() {
  CollNet table{};
  fill_common_collnet(table);
  table.init = init;
  table.getProperties = get_properties;
  table.listen = listen;
  table.iallreduce = iallreduce;
  table.iallgather = iallgather;
  table.ireducescatter = ireducescatter;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v8::CollNet ncclCollNetPlugin_v8;
nccl_abi::v8::CollNet ncclCollNetPlugin_v8 = ho::plugin::make_table();
