// What the CollNet adapters of all versions have in common.
#pragma once

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"
#include "core/collnet/coll_net.hpp"

namespace ho::plugin {

CollNet& coll_net();

namespace every_coll_net {

nccl_abi::Result reduce_support(nccl_abi::DataType type, nccl_abi::ReduceOp op, int* supported);
nccl_abi::Result iflush(void* group, void* data, int size, void* memory, void** request);
nccl_abi::AllReduce<size_t> iallreduce;
nccl_abi::AllReduce<int> iallreduce;  // in v8
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

// Of versions that know no contexts: there is one for the process.
nccl_abi::Result listen(int device, void* handle, void** listener);
// Since v11.
nccl_abi::Result listen(void* context, int device, void* handle, void** listener);

}  // namespace every_coll_net

// Null: of the process.
nccl_abi::Result open_coll_net(int version,
                               nccl_abi::DebugLogger logger,
                               uint64_t communicator,
                               void** context);

// init() of the table of that version.
template <auto& table, int version>
struct CollNetInit {
  using Result = nccl_abi::Result;

  static Result init(nccl_abi::DebugLogger logger) { return init(nullptr, 0, logger); }
  static Result init(void** context, uint64_t communicator, nccl_abi::DebugLogger logger) {
    const Result opened = open_coll_net(version, logger, communicator, context);
    // What the network below has. NCCL reads the table after init.
    if constexpr (requires { table.makeVDevice; }) {
      if (opened == Result::kSuccess) {
        const bool has_them = coll_net().has_virtual_devices();
        offer(table.makeVDevice, has_them, make_virtual_device<coll_net>);
      }
    }
    return opened;
  }
};

template <auto& table, int version>
consteval auto coll_net_table() {
  std::remove_reference_t<decltype(table)> made{};
  made.name = kNetName;
  made.init = CollNetInit<table, version>::init;
  made.devices = call<coll_net, &CollNet::device_count>;
  made.getProperties = get_properties<coll_net>;
  made.listen = every_coll_net::listen;
  made.connect = call<coll_net, &CollNet::connect>;
  made.reduceSupport = every_coll_net::reduce_support;
  made.regMr = call<coll_net, &CollNet::register_memory>;
  made.deregMr = call<coll_net, &CollNet::deregister>;
  made.iallreduce = every_coll_net::iallreduce;
  made.iallgather = every_coll_net::iallgather;
  made.ireducescatter = every_coll_net::ireducescatter;
  made.iflush = every_coll_net::iflush;
  made.test = call<coll_net, &CollNet::test>;
  made.closeColl = call<coll_net, &CollNet::close_comm>;
  made.closeListen = call<coll_net, &CollNet::close_listen>;
  if constexpr (requires { made.finalize; }) {
    made.finalize = call<coll_net, &CollNet::close>;
  }
  return made;
}

}  // namespace ho::plugin
