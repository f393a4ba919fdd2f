// What all versions of NCCL's plugin interfaces share. Written from a description of the ABI: type
// names are ours, member names and numbers are NCCL's. A v<number> namespace holds the types of
// that version of whatever interface they belong to: v2::Tuner, v2::Env, v8::Net, v8::CollNet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nccl_abi {

// The layouts, and the offsets that every header asserts, are those of 64-bit machines.
static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8 && sizeof(unsigned long) == 8);
static_assert(sizeof(int) == 4 && sizeof(float) == 4 && sizeof(double) == 8);

// Enumerations cross the ABI as int; the fixed type lets them hold values that we do not know.
enum class [[nodiscard]] Result : int{
    kSuccess = 0,
    kUnhandledCudaError = 1,
    kSystemError = 2,
    kInternalError = 3,
    kInvalidArgument = 4,
    kInvalidUsage = 5,
    kRemoteError = 6,
    kInProgress = 7,
};

enum class DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4m3 = 10,  // this and the next since 2.24
  kFloat8E5m2 = 11,
};

// Averages and pre-multiplied sums reach a collnet as kSum.
enum class ReduceOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

enum class Function : int {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4,  // NCCL calls a tuner with 0 to 4 only
  kSendReceive = 5,
  kSend = 6,
  kReceive = 7,
  kAllToAll = 8,  // this and the next two since 2.28
  kScatter = 9,
  kGather = 10,
  kAllGatherV = 11,  // this and what follows since 2.30
  kPutSignal = 12,
  kSignal = 13,
  kWaitSignal = 14,
};

// Indices of tables, so they convert to int.
enum Algorithm : int {
  kAlgorithmTree = 0,
  kAlgorithmRing = 1,
  kAlgorithmCollNetDirect = 2,
  kAlgorithmCollNetChain = 3,
  kAlgorithmNvls = 4,
  kAlgorithmNvlsTree = 5,
  kAlgorithmPat = 6,  // since 2.23
};
inline constexpr int kAlgorithmCount = 7;

enum Protocol : int { kProtocolLl = 0, kProtocolLl128 = 1, kProtocolSimple = 2 };
inline constexpr int kProtocolCount = 3;

inline constexpr size_t kHandleBytes = 128;  // of what listen() fills in and connect() reads
inline constexpr int kMaxRequests = 32;  // 8 for v6; NCCL does not hold itself to it for collnet

// Kinds of memory: bits of NetProperties::ptrSupport, and the type that regMr() is given.
inline constexpr int kPointerHost = 1;
inline constexpr int kPointerCuda = 2;
inline constexpr int kPointerDmabuf = 4;

// maxP2pBytes and maxCollBytes must be in [1, kMaxSizeBytes].
inline constexpr size_t kMaxSizeBytes = size_t{1} << 40;
// What NCCL assumes for collnet operations of plugins up to v8, whose counts are int.
inline constexpr size_t kMaxCollNetBytesV8 = size_t{512} << 20;

// *request on entry to irecv (v9 and later) where NCCL can do without a completion.
inline constexpr uintptr_t kOptionalReceiveCompletion = 0x1;

enum class NetDeviceType : int { kHost = 0, kUnpack = 1, kGinProxy = 2, kGinGdaki = 3 };
// What connect() and accept() give back for device types other than kHost; we have none.
struct DeviceHandle;

enum class LogLevel : int {
  kNone = 0,
  kVersion = 1,
  kWarn = 2,
  kInfo = 3,
  kAbort = 4,
  kTrace = 5,
};
// Those of NCCL's that we log under.
enum LogSubsystem : unsigned long { kLogInit = 0x1, kLogNet = 0x10 };
// `flags` holds LogSubsystem bits; `format` is printf's.
using DebugLogger = void (*)(
    LogLevel level, unsigned long flags, const char* file, int line, const char* format, ...);
using ProfilerCallback =
    Result (*)(void** event, int type, void* parent, int64_t plugin_id, void* extra);

static_assert(sizeof(Result) == 4 && sizeof(DataType) == 4 && sizeof(ReduceOp) == 4);
static_assert(sizeof(Function) == 4 && sizeof(LogLevel) == 4 && sizeof(NetDeviceType) == 4);

}  // namespace nccl_abi
