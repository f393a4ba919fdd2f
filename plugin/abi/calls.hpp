// The types of calls that several versions of NCCL's tables have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"

namespace nccl_abi {

using RegisterDmaBuf = Result(void* connection,
                              void* data,
                              size_t size,
                              int type,
                              uint64_t offset,
                              int descriptor,
                              void** memory);

// Size is int in version 8, size_t since.
template <typename Size>
using ReceiveInto = Result(void* receiver,
                           int count,
                           void** data,
                           Size* sizes,
                           int* tags,
                           void** memories,
                           void** request);
using ProfiledSend = Result(void* sender,
                            void* data,
                            size_t size,
                            int tag,
                            void* memory,
                            void* profiler_handle,
                            void** request);
using ProfiledReceive = Result(void* receiver,
                               int count,
                               void** data,
                               size_t* sizes,
                               int* tags,
                               void** memories,
                               void** profiler_handles,
                               void** request);
using Flush =
    Result(void* receiver, int count, void** data, int* sizes, void** memories, void** request);

template <typename Count>
using AllReduce = Result(void* group,
                         void* send,
                         void* receive,
                         Count count,
                         DataType type,
                         ReduceOp op,
                         void* send_memory,
                         void* receive_memory,
                         void** request);
// A part of a window, with its registration. Size is uint32_t in version 8, size_t since.
template <typename Size>
struct WindowPart {
  void* mhandle;
  void* address;
  Size size;
};
template <typename Buffer>
using AllGather = Result(void* group,
                         void* send,
                         int part_count,
                         Buffer* receive_parts,
                         size_t bytes_per_rank,
                         size_t window_offset,
                         size_t window_bytes,
                         void* send_memory,
                         void** request);
template <typename Buffer>
using ReduceScatter = Result(void* group,
                             int part_count,
                             Buffer* send_parts,
                             void* receive,
                             size_t bytes_per_rank,
                             size_t window_offset,
                             size_t window_bytes,
                             DataType type,
                             ReduceOp op,
                             void* receive_memory,
                             void** request);

// Of a tuner's table of costs, see v3::cost_of().
using CostsInfo = Result(void* context,
                         Function function,
                         size_t bytes,
                         int operations,
                         float** costs,
                         int algorithms,
                         int protocols,
                         int registered,
                         int* channels);

}  // namespace nccl_abi
