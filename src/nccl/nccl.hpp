// The calls of NCCL that this library makes, as a table. Declared here: nothing built includes
// NCCL's header or needs its library. Names and meaning are nccl.h's, of 2.20 and every release
// since; tests compare these declarations with nccl.h, and with the installed library, where they
// are found.
//
// A table is a value that is handed to whoever calls: installed() has the installed NCCL's, tests
// make their own. What is believed of NCCL beyond its header is listed in docs/design/device.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "device/driver.hpp"

namespace ho::nccl {

using ResultCode = int;                     // ncclResult_t
using CommHandle = struct CommObject*;      // ncclComm_t
using StreamHandle = device::StreamHandle;  // cudaStream_t: the driver's CUstream
using DataType = int;                       // ncclDataType_t: as ho::DType up to kBfloat16
using Reduction = int;                      // ncclRedOp_t

inline constexpr ResultCode kSuccess = 0;
inline constexpr ResultCode kUnhandledCudaError = 1;
inline constexpr ResultCode kSystemError = 2;
inline constexpr ResultCode kInternalError = 3;
inline constexpr ResultCode kInvalidArgument = 4;
inline constexpr ResultCode kInvalidUsage = 5;
inline constexpr ResultCode kRemoteError = 6;
inline constexpr ResultCode kInProgress = 7;  // no error: of communicators that do not block
inline constexpr ResultCode kTimeout = 8;     // since 2.30

inline constexpr Reduction kSum = 0;
inline constexpr DataType kUint8 = 1;     // what bytes move as
inline constexpr DataType kBfloat16 = 9;  // the last one that every release has

struct UniqueId {  // ncclUniqueId
  char bytes[128];
};
static_assert(sizeof(UniqueId) == 128 && alignof(UniqueId) == 1);

inline constexpr int kUndefined = std::numeric_limits<int>::min();
inline constexpr unsigned kConfigMagic = 0xcafebeef;
// Of the release whose structure Config is. It has grown at its end since. NCCL takes `size` bytes
// of it, and defaults for the rest, so that every later release takes this one.
inline constexpr unsigned kConfigVersion = 22000;

// ncclConfig_t of 2.18 to 2.25, whose last four bytes nobody uses; of 2.26 it is the whole, and of
// later releases a prefix.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kConfigVersion;
  int blocking = kUndefined;
  int cluster_size = kUndefined;  // cgaClusterSize
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  // trafficClass since 2.26, which takes what is there whatever the version says.
  int traffic_class = kUndefined;
};
static_assert(offsetof(Config, size) == 0);
static_assert(offsetof(Config, magic) == 8);
static_assert(offsetof(Config, version) == 12);
static_assert(offsetof(Config, blocking) == 16);
static_assert(offsetof(Config, cluster_size) == 20);
static_assert(offsetof(Config, min_ctas) == 24);
static_assert(offsetof(Config, max_ctas) == 28);
static_assert(offsetof(Config, net_name) == 32);
static_assert(offsetof(Config, split_share) == 40);
static_assert(offsetof(Config, traffic_class) == 44);
static_assert(sizeof(Config) == 48);

// X(member, symbol, what it returns, signature). A communicator may be used by one thread at a
// time.
#define HORING_NCCL_CALLS(X)                                                                     \
  X(get_version, "ncclGetVersion", ResultCode, (int* version))                                   \
  X(error_text, "ncclGetErrorString", const char*, (ResultCode))                                 \
  X(last_error, "ncclGetLastError", const char*, (CommHandle))                                   \
  X(get_unique_id, "ncclGetUniqueId", ResultCode, (UniqueId*))                                   \
  X(comm_init,                                                                                   \
    "ncclCommInitRankConfig",                                                                    \
    ResultCode,                                                                                  \
    (CommHandle*, int ranks, UniqueId, int rank, Config*))                                       \
  X(comm_async_error, "ncclCommGetAsyncError", ResultCode, (CommHandle, ResultCode * error))     \
  X(comm_abort, "ncclCommAbort", ResultCode, (CommHandle))                                       \
  X(comm_finalize, "ncclCommFinalize", ResultCode, (CommHandle))                                 \
  X(comm_destroy, "ncclCommDestroy", ResultCode, (CommHandle))                                   \
  X(comm_count, "ncclCommCount", ResultCode, (CommHandle, int* ranks))                           \
  X(comm_rank, "ncclCommUserRank", ResultCode, (CommHandle, int* rank))                          \
  X(all_gather,                                                                                  \
    "ncclAllGather",                                                                             \
    ResultCode,                                                                                  \
    (const void* send, void* recv, size_t count, DataType, CommHandle, StreamHandle))            \
  X(reduce_scatter,                                                                              \
    "ncclReduceScatter",                                                                         \
    ResultCode,                                                                                  \
    (const void* send, void* recv, size_t count, DataType, Reduction, CommHandle, StreamHandle)) \
  X(all_reduce,                                                                                  \
    "ncclAllReduce",                                                                             \
    ResultCode,                                                                                  \
    (const void* send, void* recv, size_t count, DataType, Reduction, CommHandle, StreamHandle)) \
  X(broadcast,                                                                                   \
    "ncclBroadcast",                                                                             \
    ResultCode,                                                                                  \
    (const void* send, void* recv, size_t count, DataType, int root, CommHandle, StreamHandle))  \
  X(group_start, "ncclGroupStart", ResultCode, ())                                               \
  X(group_end, "ncclGroupEnd", ResultCode, ())

struct Nccl {
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration
#define HORING_NCCL_MEMBER(member, symbol, returned, signature) \
  returned(*member) signature = nullptr;
  HORING_NCCL_CALLS(HORING_NCCL_MEMBER)
// NOLINTEND(bugprone-macro-parentheses)
#undef HORING_NCCL_MEMBER
};

// The first whose communicators that do not block may be several of one thread (ADR 38).
inline constexpr int kMinVersion = 22602;

// "2.28.9" of 22809.
[[nodiscard]] std::string version_text(int version);

// The installed NCCL's, loaded once per process and never unloaded: PARO_NCCL_LIBRARY, else
// libnccl.so.2 as the loader finds it, which is the one that the process has already (torch's).
// kUnsupported, and why, where there is none, where it is too old (named, with the least version)
// or lacks a call (named).
[[nodiscard]] ho::Result<const Nccl*> installed();

// "ncclAllReduce: remote process exited or there was a network error (last error here: ...): what
// to do". Ok for kSuccess. The communicator may be null.
[[nodiscard]] Status error(const Nccl& nccl,
                           std::string_view call,
                           ResultCode result,
                           CommHandle comm);

}  // namespace ho::nccl
