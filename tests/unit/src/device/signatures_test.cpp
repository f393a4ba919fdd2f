// driver.hpp's declarations against cuda.h's: every call, number and structure.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "catch.hpp"
#include "device/driver_loader.hpp"

namespace ho::device {
namespace {

// What the calling convention sees of a value: a pointer, a whole number (an enumeration is one) or
// a structure, and its size.
template <typename A, typename B>
constexpr bool same_value() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else {
    constexpr bool kWhole =
        (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
    constexpr bool kSigns =
        std::is_enum_v<A> || std::is_enum_v<B> || std::is_signed_v<A> == std::is_signed_v<B>;
    constexpr bool kPointers = std::is_pointer_v<A> && std::is_pointer_v<B>;
    constexpr bool kStructures = std::is_class_v<A> && std::is_class_v<B>;
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
           ((kWhole && kSigns) || kPointers || kStructures);
  }
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
static_assert(!SameCall<int (*)(unsigned), int (*)(int)>::value);
static_assert(!SameCall<int (*)(IpcMemory), int (*)(IpcMemory*)>::value);

struct Expected {
  const char* name;
  int version;
};

// Against the version's own type, and against what cuda.h makes of the name today.
#define SAME(member, call, since)                                                         \
  static_assert(SameCall<decltype(Driver::member), PFN_##call##_v##since>::value, #call); \
  static_assert(SameCall<decltype(Driver::member), decltype(&call)>::value, #call);       \
  constexpr Expected kExpected_##member{#call, since};

SAME(init, cuInit, 2000)
SAME(version, cuDriverGetVersion, 2020)
SAME(error_name, cuGetErrorName, 6000)
SAME(error_text, cuGetErrorString, 6000)
SAME(device_count, cuDeviceGetCount, 2000)
SAME(device_get, cuDeviceGet, 2000)
SAME(device_name, cuDeviceGetName, 2000)
SAME(device_attribute, cuDeviceGetAttribute, 2000)
SAME(device_memory, cuDeviceTotalMem, 3020)
SAME(device_pci_bus_id, cuDeviceGetPCIBusId, 4010)
SAME(device_uuid, cuDeviceGetUuid, 11040)
SAME(can_access_peer, cuDeviceCanAccessPeer, 4000)
SAME(primary_context_retain, cuDevicePrimaryCtxRetain, 7000)
SAME(primary_context_release, cuDevicePrimaryCtxRelease, 11000)
SAME(context_push, cuCtxPushCurrent, 4000)
SAME(context_pop, cuCtxPopCurrent, 4000)
SAME(context_enable_peer, cuCtxEnablePeerAccess, 4000)
SAME(context_priorities, cuCtxGetStreamPriorityRange, 5050)
SAME(thread_capture_mode, cuThreadExchangeStreamCaptureMode, 10010)
SAME(stream_create, cuStreamCreateWithPriority, 5050)
SAME(stream_destroy, cuStreamDestroy, 4000)
SAME(stream_synchronize, cuStreamSynchronize, 2000)
SAME(stream_wait_event, cuStreamWaitEvent, 3020)
SAME(stream_context, cuStreamGetCtx, 9020)
SAME(stream_capturing, cuStreamIsCapturing, 10000)
SAME(stream_host_function, cuLaunchHostFunc, 10000)
SAME(event_create, cuEventCreate, 2000)
SAME(event_destroy, cuEventDestroy, 4000)
SAME(event_record, cuEventRecord, 2000)
SAME(event_query, cuEventQuery, 2000)
SAME(memory_allocate, cuMemAlloc, 3020)
SAME(memory_free, cuMemFree, 3020)
SAME(host_allocate, cuMemHostAlloc, 2020)
SAME(host_free, cuMemFreeHost, 2000)
SAME(host_register, cuMemHostRegister, 6050)
SAME(host_unregister, cuMemHostUnregister, 4000)
SAME(copy_async, cuMemcpyAsync, 4000)
SAME(pointer_attribute, cuPointerGetAttribute, 4000)
SAME(address_range, cuMemGetAddressRange, 3020)
SAME(ipc_export, cuIpcGetMemHandle, 4010)
SAME(ipc_open, cuIpcOpenMemHandle, 11000)
SAME(ipc_close, cuIpcCloseMemHandle, 4010)
SAME(module_load, cuModuleLoadData, 2000)
SAME(module_unload, cuModuleUnload, 2000)
SAME(module_function, cuModuleGetFunction, 2000)
SAME(launch, cuLaunchKernel, 4000)

constexpr Expected kAll[] = {
    kExpected_init,
    kExpected_version,
    kExpected_error_name,
    kExpected_error_text,
    kExpected_device_count,
    kExpected_device_get,
    kExpected_device_name,
    kExpected_device_attribute,
    kExpected_device_memory,
    kExpected_device_pci_bus_id,
    kExpected_device_uuid,
    kExpected_can_access_peer,
    kExpected_primary_context_retain,
    kExpected_primary_context_release,
    kExpected_context_push,
    kExpected_context_pop,
    kExpected_context_enable_peer,
    kExpected_context_priorities,
    kExpected_thread_capture_mode,
    kExpected_stream_create,
    kExpected_stream_destroy,
    kExpected_stream_synchronize,
    kExpected_stream_wait_event,
    kExpected_stream_context,
    kExpected_stream_capturing,
    kExpected_stream_host_function,
    kExpected_event_create,
    kExpected_event_destroy,
    kExpected_event_record,
    kExpected_event_query,
    kExpected_memory_allocate,
    kExpected_memory_free,
    kExpected_host_allocate,
    kExpected_host_free,
    kExpected_host_register,
    kExpected_host_unregister,
    kExpected_copy_async,
    kExpected_pointer_attribute,
    kExpected_address_range,
    kExpected_ipc_export,
    kExpected_ipc_open,
    kExpected_ipc_close,
    kExpected_module_load,
    kExpected_module_unload,
    kExpected_module_function,
    kExpected_launch,
};

static_assert(sizeof(DeviceAddress) == sizeof(CUdeviceptr));
static_assert(sizeof(IpcMemory) == sizeof(CUipcMemHandle));
static_assert(sizeof(DeviceUuid) == sizeof(CUuuid));
static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kOutOfDeviceMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kDeinitialized == CUDA_ERROR_DEINITIALIZED && kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(kInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kInvalidHandle == CUDA_ERROR_INVALID_HANDLE && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kNotPermitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kAlreadyPinned == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kNotPinned == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
static_assert(kCaptureModeGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(kCaptureModeThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kEventInterprocess == CU_EVENT_INTERPROCESS);
static_assert(kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kHostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kPointerIsLegacyIpcCapable == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(kMemoryHost == CU_MEMORYTYPE_HOST && kMemoryDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);

#if CUDA_VERSION >= 13000
// The numbers that driver.cpp knows as the end of a context.
constexpr CUresult kEndsOfContexts[] = {CUDA_ERROR_ECC_UNCORRECTABLE,
                                        CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                        CUDA_ERROR_CONTAINED,
                                        CUDA_ERROR_ILLEGAL_ADDRESS,
                                        CUDA_ERROR_LAUNCH_TIMEOUT,
                                        CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                        CUDA_ERROR_ASSERT,
                                        CUDA_ERROR_HARDWARE_STACK_ERROR,
                                        CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                        CUDA_ERROR_MISALIGNED_ADDRESS,
                                        CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                        CUDA_ERROR_INVALID_PC,
                                        CUDA_ERROR_LAUNCH_FAILED,
                                        CUDA_ERROR_TENSOR_MEMORY_LEAK,
                                        CUDA_ERROR_MPS_CLIENT_TERMINATED,
                                        CUDA_ERROR_EXTERNAL_DEVICE};
#endif

}  // namespace

#if CUDA_VERSION >= 13000
TEST_CASE("What cuda.h calls the end of a process's work is told as such and nothing else") {
  const Driver silent;
  for (int result = 1; result < 1000; ++result) {
    INFO(result);
    const bool ends = std::ranges::find(kEndsOfContexts, static_cast<CUresult>(result)) !=
                      std::end(kEndsOfContexts);
    const std::string text = driver_error(silent, "cuEventQuery", result).message();
    CHECK((text.find("the context is lost") != std::string::npos) == ends);
  }
}
#endif

TEST_CASE("The driver is asked for the versions that were compared with cuda.h") {
  CHECK(std::size(kAll) == driver_calls().size());
  for (const Expected& expected : kAll) {
    const auto found = std::ranges::find_if(driver_calls(), [&](const DriverCall& call) {
      return std::string(call.name) == expected.name && call.version == expected.version;
    });
    INFO(expected.name << " " << expected.version);
    CHECK(found != driver_calls().end());
  }
}

}  // namespace ho::device
