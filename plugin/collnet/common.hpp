// What the CollNet adapters of all versions do alike.
#pragma once

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"

namespace ho::plugin {

inline CollNet& coll_net() {
  return Plugin::instance().coll_net();
}

// Calls that are alike in every version.
namespace every_coll_net {

nccl_abi::Result devices(int* count);
nccl_abi::Result connect(void* handles[], int ranks, int rank, void* listener, void** group);
nccl_abi::Result reduce_support(nccl_abi::DataType type, nccl_abi::ReduceOp op, int* supported);
nccl_abi::Result register_memory(void* group, void* data, size_t size, int type, void** memory);
nccl_abi::Result deregister(void* group, void* memory);
nccl_abi::Result iflush(void* group, void* data, int size, void* memory, void** request);
nccl_abi::Result test(void* request, int* done, int* size);
nccl_abi::Result close_group(void* group);
nccl_abi::Result close_listen(void* listener);
nccl_abi::Result iallreduce(void* group,
                            void* send,
                            void* receive,
                            size_t count,
                            nccl_abi::DataType type,
                            nccl_abi::ReduceOp op,
                            void* send_memory,
                            void* receive_memory,
                            void** request);
// Parts of NCCL's always are one: the window.
nccl_abi::Result iallgather(void* group,
                            void* send,
                            int part_count,
                            const CollNet::Part& window,
                            size_t bytes_per_rank,
                            size_t window_offset,
                            size_t window_bytes,
                            void* send_memory,
                            void** request);
nccl_abi::Result ireducescatter(void* group,
                                int part_count,
                                const CollNet::Part& window,
                                void* receive,
                                size_t bytes_per_rank,
                                size_t window_offset,
                                size_t window_bytes,
                                nccl_abi::DataType type,
                                nccl_abi::ReduceOp op,
                                void* receive_memory,
                                void** request);

}  // namespace every_coll_net

template <typename Buffer>
CollNet::Part part_of(const Buffer* parts) {
  return parts == nullptr ? CollNet::Part{}
                          : CollNet::Part{parts->address, parts->size, parts->mhandle};
}

// The members that are alike in every version's table.
template <typename Table>
constexpr void fill_common_collnet(Table& table) {
  table.name = kNetName;
  table.devices = every_coll_net::devices;
  table.connect = every_coll_net::connect;
  table.reduceSupport = every_coll_net::reduce_support;
  table.regMr = every_coll_net::register_memory;
  table.deregMr = every_coll_net::deregister;
  table.iflush = every_coll_net::iflush;
  table.test = every_coll_net::test;
  table.closeColl = every_coll_net::close_group;
  table.closeListen = every_coll_net::close_listen;
}

}  // namespace ho::plugin
