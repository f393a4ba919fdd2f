// NCCL 2.20: sizes are int.
#include "abi/net_v8.hpp"

#include <array>

#include "net/common.hpp"

extern "C" __attribute__((visibility("default"))) nccl_abi::v8::Net ncclNetPlugin_v8;

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v8::Net;

Result init(DebugLogger logger) {
  return init_process(ncclNetPlugin_v8, "net v8", logger);
}

Result isend(void* sender, void* data, int size, int tag, void* memory, void** request) {
  return size < 0
             ? Result::kInvalidArgument
             : every_version::isend(sender, data, static_cast<size_t>(size), tag, memory, request);
}

Result irecv(void* receiver,
             int count,
             void** data,
             int* sizes,
             int* tags,
             void** memories,
             void** request) {
  std::array<size_t, kMaxGrouped> bytes{};
  if (count < 1 || static_cast<size_t>(count) > bytes.size()) {
    return Result::kInvalidArgument;
  }
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (sizes[i] < 0) {
      return Result::kInvalidArgument;
    }
    bytes.at(i) = static_cast<size_t>(sizes[i]);
  }
  *request = nullptr;
  return every_version::irecv(receiver, count, data, bytes.data(), tags, memories, request);
}

constexpr Net make_table() {
  Net table{};
  fill_common(table);
  table.init = init;
  table.connect = every_version::connect;
  table.isend = isend;
  table.irecv = irecv;
  return table;
}

}  // namespace
}  // namespace ho::plugin

constinit nccl_abi::v8::Net ncclNetPlugin_v8 = ho::plugin::make_table();
