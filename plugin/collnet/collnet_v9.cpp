// NCCL 2.24: counts are size_t.
#include "abi/collnet_v9.hpp"

#include "collnet/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DataType;
using nccl_abi::DebugLogger;
using nccl_abi::ReduceOp;
using nccl_abi::Result;
using nccl_abi::v9::Buffer;
using nccl_abi::v9::CollNet;
using nccl_abi::v9::NetProperties;

Result get_properties(int device, NetProperties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = coll_net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy_since_v9(device, from, *properties);
    }
    return reply;
  });
}

// This version knows no contexts: there is one for the process.
Result init(DebugLogger logger) {
  return guarded([&] {
    const Reply reply = start("collnet v9", logger);
    return reply != Reply::kSuccess ? reply : Plugin::instance().open_process_context(true);
  });
}

Result listen(int device, void* handle, void** listener) {
  return guarded([&] {
    return coll_net().listen(Plugin::instance().process_context(true), device, handle, listener);
  });
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
  table.iallreduce = every_coll_net::iallreduce;
  table.iallgather = iallgather;
  table.ireducescatter = ireducescatter;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v9::CollNet ncclCollNetPlugin_v9;
nccl_abi::v9::CollNet ncclCollNetPlugin_v9 = ho::plugin::make_table();
