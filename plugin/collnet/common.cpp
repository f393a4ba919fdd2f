#include "collnet/common.hpp"

#include "base/log.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

CollNet& coll_net() {
  return Plugin::instance().coll_net();
}

nccl_abi::Result open_coll_net(int version,
                               nccl_abi::DebugLogger logger,
                               uint64_t communicator,
                               void** context) {
  return guarded([&] {
    if (context != nullptr) {
      *context = nullptr;
    }
    const Reply reply = start("collnet v" + std::to_string(version), logger);
    if (reply != Reply::kSuccess) {
      return reply;
    }
    return context == nullptr ? Plugin::instance().open_process_context({}, true)
                              : Plugin::instance().open_coll_net(communicator, context);
  });
}

}  // namespace ho::plugin

namespace ho::plugin::every_coll_net {
namespace {

using nccl_abi::DataType;
using nccl_abi::ReduceOp;
using nccl_abi::Result;

Reply one_window(int part_count, const CollNet::Part& window, size_t window_bytes) {
  if (part_count == 1 && window_bytes <= window.bytes) {
    return Reply::kSuccess;
  }
  log_warn("CollNet: {} parts, the first of {} bytes, for a window of {} bytes",
           part_count,
           window.bytes,
           window_bytes);
  return Reply::kInvalidArgument;
}

}  // namespace

Result reduce_support(DataType type, ReduceOp op, int* supported) {
  return guarded([&] {
    *supported = CollNet::reduces(static_cast<int>(type), static_cast<int>(op)) ? 1 : 0;
    return Reply::kSuccess;
  });
}

// Only GPU memory needs one.
Result iflush(void* /*group*/, void* /*data*/, int /*size*/, void* /*memory*/, void** request) {
  *request = nullptr;
  return Result::kSuccess;
}

Result iallreduce(void* group,
                  void* send,
                  void* receive,
                  size_t count,
                  DataType type,
                  ReduceOp op,
                  void* send_memory,
                  void* receive_memory,
                  void** request) {
  return guarded([&] {
    return coll_net().all_reduce(group,
                                 {send, 0, send_memory},
                                 {receive, 0, receive_memory},
                                 count,
                                 {static_cast<int>(type), static_cast<int>(op)},
                                 request);
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
  return count < 0 ? Result::kInvalidArgument
                   : iallreduce(group,
                                send,
                                receive,
                                static_cast<size_t>(count),
                                type,
                                op,
                                send_memory,
                                receive_memory,
                                request);
}

Result gather_window(void* group,
                     void* send,
                     int part_count,
                     const CollNet::Part& window,
                     const CollNet::Blocks& blocks,
                     size_t window_bytes,
                     void* send_memory,
                     void** request) {
  return guarded([&] {
    const Reply reply = one_window(part_count, window, window_bytes);
    return reply != Reply::kSuccess
               ? reply
               : coll_net().all_gather(group,
                                       {send, 0, send_memory},
                                       {window.data, window_bytes, window.memory},
                                       blocks,
                                       request);
  });
}

Result reduce_window(void* group,
                     int part_count,
                     const CollNet::Part& window,
                     const CollNet::Part& receive,
                     const CollNet::Blocks& blocks,
                     size_t window_bytes,
                     const CollNet::Reduction& reduction,
                     void** request) {
  return guarded([&] {
    const Reply reply = one_window(part_count, window, window_bytes);
    return reply != Reply::kSuccess
               ? reply
               : coll_net().reduce_scatter(group,
                                           {window.data, window_bytes, window.memory},
                                           receive,
                                           blocks,
                                           reduction,
                                           request);
  });
}

Result listen(int device, void* handle, void** listener) {
  return listen(Plugin::instance().process_context(true), device, handle, listener);
}

Result listen(void* context, int device, void* handle, void** listener) {
  return guarded([&] { return coll_net().listen(context, device, handle, listener); });
}

}  // namespace ho::plugin::every_coll_net
