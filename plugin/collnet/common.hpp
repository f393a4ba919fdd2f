// What the CollNet adapters of all versions do alike.
#pragma once

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"
#include "core/collnet/coll_net.hpp"

namespace ho::plugin {

CollNet& coll_net();

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
nccl_abi::Result gather_window(void* group,
                               void* send,
                               int part_count,
                               const CollNet::Part& window,
                               const CollNet::Blocks& blocks,
                               size_t window_bytes,
                               void* send_memory,
                               void** request);
nccl_abi::Result reduce_window(void* group,
                               int part_count,
                               const CollNet::Part& window,
                               const CollNet::Part& receive,
                               const CollNet::Blocks& blocks,
                               size_t window_bytes,
                               const CollNet::Reduction& reduction,
                               void** request);

template <typename Buffer>
CollNet::Part part_of(const Buffer* parts) {
  return parts == nullptr ? CollNet::Part{}
                          : CollNet::Part{parts->address, parts->size, parts->mhandle};
}

template <typename Buffer>
nccl_abi::Result iallgather(void* group,
                            void* send,
                            int part_count,
                            Buffer* receive_parts,
                            size_t bytes_per_rank,
                            size_t window_offset,
                            size_t window_bytes,
                            void* send_memory,
                            void** request) {
  return gather_window(group,
                       send,
                       part_count,
                       part_of(receive_parts),
                       {bytes_per_rank, window_offset},
                       window_bytes,
                       send_memory,
                       request);
}

template <typename Buffer>
nccl_abi::Result ireducescatter(void* group,
                                int part_count,
                                Buffer* send_parts,
                                void* receive,
                                size_t bytes_per_rank,
                                size_t window_offset,
                                size_t window_bytes,
                                nccl_abi::DataType type,
                                nccl_abi::ReduceOp op,
                                void* receive_memory,
                                void** request) {
  return reduce_window(group,
                       part_count,
                       part_of(send_parts),
                       {receive, 0, receive_memory},
                       {bytes_per_rank, window_offset},
                       window_bytes,
                       {static_cast<int>(type), static_cast<int>(op)},
                       request);
}

template <typename Properties>
nccl_abi::Result get_properties(int device, Properties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = coll_net().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy(device, from, *properties);
    }
    return reply;
  });
}

template <typename Properties>
nccl_abi::Result make_virtual_device(int* device, Properties* properties) {
  return guarded(
      [&] { return coll_net().make_virtual_device(properties->devs, properties->ndevs, device); });
}

// Of versions that know no contexts: there is one for the process.
nccl_abi::Result init_process(const char* interface, nccl_abi::DebugLogger logger);
nccl_abi::Result listen(int device, void* handle, void** listener);
// Since v11.
nccl_abi::Result init_context(const char* interface,
                              nccl_abi::DebugLogger logger,
                              uint64_t communicator,
                              void** context);
nccl_abi::Result listen(void* context, int device, void* handle, void** listener);
nccl_abi::Result finalize(void* context);

}  // namespace every_coll_net

// Where an init went well: what the network below has. NCCL reads the table after init.
template <typename Table>
nccl_abi::Result offer_virtual_devices(Table& table, nccl_abi::Result made) {
  if (made == nccl_abi::Result::kSuccess) {
    offer(table.makeVDevice, coll_net().has_virtual_devices(), every_coll_net::make_virtual_device);
  }
  return made;
}

// The members that are alike in every version's table.
template <typename Table>
constexpr void fill_common_collnet(Table& table) {
  table.name = kNetName;
  table.devices = every_coll_net::devices;
  table.getProperties = every_coll_net::get_properties;
  table.listen = every_coll_net::listen;
  table.connect = every_coll_net::connect;
  table.reduceSupport = every_coll_net::reduce_support;
  table.regMr = every_coll_net::register_memory;
  table.deregMr = every_coll_net::deregister;
  table.iallgather = every_coll_net::iallgather;
  table.ireducescatter = every_coll_net::ireducescatter;
  table.iflush = every_coll_net::iflush;
  table.test = every_coll_net::test;
  table.closeColl = every_coll_net::close_group;
  table.closeListen = every_coll_net::close_listen;
}

}  // namespace ho::plugin
