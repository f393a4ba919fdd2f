// Collnet plugins, version 9 (since NCCL 2.24): counts and sizes as size_t.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/layout.hpp"
#include "abi/net_v9.hpp"

namespace nccl_abi::v9 {

using Buffer = WindowPart<size_t>;
static_assert(window_part_in_place<Buffer>());

struct CollNet {
  const char* name;
  Result (*init)(DebugLogger logger);
  Result (*devices)(int* count);
  Result (*getProperties)(int device, NetProperties* properties);
  Result (*listen)(int device, void* handle, void** listener);
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
  Result (*makeVDevice)(int* device, VirtualDeviceProperties* properties);
};
static_assert(coll_net_in_place<CollNet>());
static_assert(offsetof(CollNet, makeVDevice) == 17 * sizeof(void*));
static_assert(sizeof(CollNet) == 144);

}  // namespace nccl_abi::v9
