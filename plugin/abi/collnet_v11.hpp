// Collnet plugins, version 11 (since NCCL 2.28): a context per communicator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/collnet_v9.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v11.hpp"

namespace nccl_abi::v11 {

using v9::Buffer;

// v12's table differs in what these two are.
template <typename Properties, typename VirtualDevice>
struct BasicCollNet {
  const char* name;
  Result (*init)(void** context, uint64_t communicator_id, DebugLogger logger);
  Result (*devices)(int* count);
  Result (*getProperties)(int device, Properties* properties);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  // May wait. `handles` need not be in the order of ranks.
  Result (*connect)(void* handles[], int ranks, int rank, void* listener, void** group);
  Result (*reduceSupport)(DataType type, ReduceOp op, int* supported);
  Result (*regMr)(void* group, void* data, size_t size, int type, void** memory);
  RegisterDmaBuf* regMrDmaBuf;
  Result (*deregMr)(void* group, void* memory);
  // In this and the next two a null request means not now, try again.
  AllReduce<size_t>* iallreduce;
  // This and ireducescatter may be null: NCCL then does without them.
  AllGather<Buffer>* iallgather;
  ReduceScatter<Buffer>* ireducescatter;
  Result (*iflush)(void* group, void* data, int size, void* memory, void** request);
  Result (*test)(void* request, int* done, int* size);  // `size` may be null
  Result (*closeColl)(void* group);
  Result (*closeListen)(void* listener);
  Result (*makeVDevice)(int* device, VirtualDevice* properties);
  Result (*finalize)(void* context);
};
using CollNet = BasicCollNet<NetProperties, VirtualDeviceProperties>;
static_assert(coll_net_in_place<CollNet>());
static_assert(offsetof(CollNet, makeVDevice) == 17 * sizeof(void*));
static_assert(offsetof(CollNet, finalize) == 18 * sizeof(void*));
static_assert(sizeof(CollNet) == 152);

}  // namespace nccl_abi::v11
