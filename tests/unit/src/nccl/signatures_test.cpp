// nccl.hpp's declarations against nccl.h's: every call, number and structure.
#include <nccl.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "base/dtype.hpp"
#include "catch.hpp"
#include "nccl/loader.hpp"

namespace ho::nccl {
namespace {

// What the calling convention sees of a value: a pointer, a whole number (an enumeration is one) or
// a structure, and its size.
template <typename A, typename B>
constexpr bool same_value() {
  constexpr bool kWhole =
      (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
  constexpr bool kPointers = std::is_pointer_v<A> && std::is_pointer_v<B>;
  constexpr bool kStructures = std::is_class_v<A> && std::is_class_v<B>;
  return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && (kWhole || kPointers || kStructures);
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameCall<R (*)(A...), S (*)(B...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(A) != sizeof...(B)) {
      return false;
    } else {
      return same_value<R, S>() && (same_value<A, B>() && ...);
    }
  }
  static constexpr bool value = compare();
};

// The comparison itself tells what differs.
static_assert(!SameCall<int (*)(int), int (*)(int, int)>::value);
static_assert(!SameCall<int (*)(int), int (*)(int*)>::value);
static_assert(!SameCall<int (*)(unsigned), int (*)(size_t)>::value);
static_assert(!SameCall<int (*)(UniqueId), int (*)(UniqueId*)>::value);

#define SAME(member, symbol) \
  static_assert(SameCall<decltype(Nccl::member), decltype(&symbol)>::value, #symbol);
SAME(get_version, ncclGetVersion)
SAME(error_text, ncclGetErrorString)
SAME(last_error, ncclGetLastError)
SAME(get_unique_id, ncclGetUniqueId)
SAME(comm_init, ncclCommInitRankConfig)
SAME(comm_async_error, ncclCommGetAsyncError)
SAME(comm_abort, ncclCommAbort)
SAME(comm_finalize, ncclCommFinalize)
SAME(comm_destroy, ncclCommDestroy)
SAME(comm_count, ncclCommCount)
SAME(comm_rank, ncclCommUserRank)
SAME(all_gather, ncclAllGather)
SAME(reduce_scatter, ncclReduceScatter)
SAME(all_reduce, ncclAllReduce)
SAME(broadcast, ncclBroadcast)
SAME(group_start, ncclGroupStart)
SAME(group_end, ncclGroupEnd)
constexpr size_t kCompared = 17;

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
#define SAME_OFFSET(ours, theirs)                                          \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs)); \
  static_assert(sizeof(Config::ours) == sizeof(ncclConfig_t::theirs));
SAME_OFFSET(size, size)
SAME_OFFSET(magic, magic)
SAME_OFFSET(version, version)
SAME_OFFSET(blocking, blocking)
SAME_OFFSET(cluster_size, cgaClusterSize)
SAME_OFFSET(min_ctas, minCTAs)
SAME_OFFSET(max_ctas, maxCTAs)
SAME_OFFSET(net_name, netName)
SAME_OFFSET(split_share, splitShare)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 2)
SAME_OFFSET(traffic_class, trafficClass)
#endif
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(kConfigVersion <= NCCL_VERSION_CODE);
static_assert(kMinVersion == NCCL_VERSION(2, 26, 2));

static_assert(kSuccess == ncclSuccess && kUnhandledCudaError == ncclUnhandledCudaError &&
              kSystemError == ncclSystemError && kInternalError == ncclInternalError &&
              kInvalidArgument == ncclInvalidArgument && kInvalidUsage == ncclInvalidUsage &&
              kRemoteError == ncclRemoteError && kInProgress == ncclInProgress);
static_assert(kSum == ncclSum && kUint8 == ncclUint8 && kBfloat16 == ncclBfloat16);
// ho::DType is handed over as it is.
static_assert(static_cast<int>(DType::kInt8) == ncclInt8 &&
              static_cast<int>(DType::kUint8) == ncclUint8 &&
              static_cast<int>(DType::kInt32) == ncclInt32 &&
              static_cast<int>(DType::kUint32) == ncclUint32 &&
              static_cast<int>(DType::kInt64) == ncclInt64 &&
              static_cast<int>(DType::kUint64) == ncclUint64 &&
              static_cast<int>(DType::kFloat16) == ncclFloat16 &&
              static_cast<int>(DType::kFloat32) == ncclFloat32 &&
              static_cast<int>(DType::kFloat64) == ncclFloat64 &&
              static_cast<int>(DType::kBfloat16) == ncclBfloat16);

}  // namespace

TEST_CASE("every call of the table is compared with nccl.h") {
  CHECK(nccl_calls().size() == kCompared);
  // What the compiler cannot compare: NCCL's initializer of its structure.
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  CHECK(ours.magic == theirs.magic);
  CHECK(ours.size <= theirs.size);
  CHECK(ours.blocking == theirs.blocking);
  CHECK(ours.cluster_size == theirs.cgaClusterSize);
  CHECK(ours.min_ctas == theirs.minCTAs);
  CHECK(ours.max_ctas == theirs.maxCTAs);
  CHECK(ours.net_name == theirs.netName);
  CHECK(ours.split_share == theirs.splitShare);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 2)
  CHECK(ours.traffic_class == theirs.trafficClass);
#endif
}

}  // namespace ho::nccl
