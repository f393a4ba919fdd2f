// The calls of the CUDA driver that this library makes, as a table. Declared here: nothing built
// includes CUDA's headers or needs its libraries. Names and meaning are cuda.h's (CUDA Driver API);
// tests compare these declarations with cuda.h where it is installed.
//
// A table is a value that is handed to whoever calls: driver() has the installed driver's, tests
// make their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ho::device {

using DriverResult = int;         // CUresult
using Ordinal = int;              // CUdevice
using DeviceAddress = uintptr_t;  // CUdeviceptr
using ContextHandle = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;
using HostFunction = void (*)(void* argument);

inline constexpr DriverResult kSuccess = 0;
inline constexpr DriverResult kInvalidValue = 1;
inline constexpr DriverResult kOutOfDeviceMemory = 2;
inline constexpr DriverResult kNotInitialized = 3;
inline constexpr DriverResult kDeinitialized = 4;
inline constexpr DriverResult kNoDevice = 100;
inline constexpr DriverResult kInvalidDevice = 101;
inline constexpr DriverResult kInvalidImage = 200;
inline constexpr DriverResult kInvalidContext = 201;
inline constexpr DriverResult kInvalidHandle = 400;
inline constexpr DriverResult kNotFound = 500;
inline constexpr DriverResult kNotReady = 600;        // no error: of queries
inline constexpr DriverResult kIllegalAddress = 700;  // the context is lost with it
inline constexpr DriverResult kPeerAccessAlreadyEnabled = 704;
inline constexpr DriverResult kAlreadyPinned = 712;
inline constexpr DriverResult kNotPinned = 713;
inline constexpr DriverResult kLaunchFailed = 719;  // likewise
inline constexpr DriverResult kNotPermitted = 800;
inline constexpr DriverResult kNotSupported = 801;
inline constexpr DriverResult kCaptureUnsupported = 900;
inline constexpr DriverResult kCaptureImplicit = 906;  // by the default stream

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocMapped = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterMapped = 2;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

// CUdevice_attribute
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMultiprocessorCount = 16;
// CUpointer_attribute
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerIsLegacyIpcCapable = 10;
// CUmemorytype
inline constexpr unsigned kMemoryHost = 1;
inline constexpr unsigned kMemoryDevice = 2;
// CUstreamCaptureMode
inline constexpr int kCaptureModeGlobal = 0;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
// CUstreamCaptureStatus
inline constexpr int kCaptureNone = 0;

struct IpcMemory {  // CUipcMemHandle
  char reserved[64];
};
struct DeviceUuid {  // CUuuid
  char bytes[16];
};

// X(member, call, version, signature), the version as of DriverCall. What a call does and when is
// cuda.h's; the assumptions that this library makes beyond that are listed in
// docs/design/device.md. A version is 12040 for 12.4; device_uuid is MIG's slice's there;
// context_priorities is about streams; thread_capture_mode exchanges the thread's;
// stream_synchronize is for teardown only, memory_allocate never on the hot path.
#define HORING_DRIVER_CALLS(X)                                                                     \
  X(init, "cuInit", 2000, (unsigned flags))                                                        \
  X(version, "cuDriverGetVersion", 2020, (int* version))                                           \
  X(error_name, "cuGetErrorName", 6000, (DriverResult, const char** name))                         \
  X(error_text, "cuGetErrorString", 6000, (DriverResult, const char** text))                       \
  X(device_count, "cuDeviceGetCount", 2000, (int* count))                                          \
  X(device_get, "cuDeviceGet", 2000, (Ordinal * device, int ordinal))                              \
  X(device_name, "cuDeviceGetName", 2000, (char* name, int bytes, Ordinal))                        \
  X(device_attribute, "cuDeviceGetAttribute", 2000, (int* value, int attribute, Ordinal))          \
  X(device_memory, "cuDeviceTotalMem", 3020, (size_t * bytes, Ordinal))                            \
  X(device_pci_bus_id, "cuDeviceGetPCIBusId", 4010, (char* id, int bytes, Ordinal))                \
  X(device_uuid, "cuDeviceGetUuid", 11040, (DeviceUuid*, Ordinal))                                 \
  X(can_access_peer, "cuDeviceCanAccessPeer", 4000, (int* can, Ordinal device, Ordinal peer))      \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", 7000, (ContextHandle*, Ordinal))           \
  X(primary_context_release, "cuDevicePrimaryCtxRelease", 11000, (Ordinal))                        \
  X(context_push, "cuCtxPushCurrent", 4000, (ContextHandle))                                       \
  X(context_pop, "cuCtxPopCurrent", 4000, (ContextHandle*))                                        \
  X(context_enable_peer, "cuCtxEnablePeerAccess", 4000, (ContextHandle peer, unsigned flags))      \
  X(context_priorities, "cuCtxGetStreamPriorityRange", 5050, (int* least, int* greatest))          \
  X(thread_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, (int* mode))                  \
  X(stream_create,                                                                                 \
    "cuStreamCreateWithPriority",                                                                  \
    5050,                                                                                          \
    (StreamHandle*, unsigned flags, int priority))                                                 \
  X(stream_destroy, "cuStreamDestroy", 4000, (StreamHandle))                                       \
  X(stream_synchronize, "cuStreamSynchronize", 2000, (StreamHandle))                               \
  X(stream_wait_event, "cuStreamWaitEvent", 3020, (StreamHandle, EventHandle, unsigned flags))     \
  X(stream_context, "cuStreamGetCtx", 9020, (StreamHandle, ContextHandle*))                        \
  X(stream_capturing, "cuStreamIsCapturing", 10000, (StreamHandle, int* status))                   \
  X(stream_host_function, "cuLaunchHostFunc", 10000, (StreamHandle, HostFunction, void* argument)) \
  X(event_create, "cuEventCreate", 2000, (EventHandle*, unsigned flags))                           \
  X(event_destroy, "cuEventDestroy", 4000, (EventHandle))                                          \
  X(event_record, "cuEventRecord", 2000, (EventHandle, StreamHandle))                              \
  X(event_query, "cuEventQuery", 2000, (EventHandle))                                              \
  X(memory_allocate, "cuMemAlloc", 3020, (DeviceAddress*, size_t bytes))                           \
  X(memory_free, "cuMemFree", 3020, (DeviceAddress))                                               \
  X(host_allocate, "cuMemHostAlloc", 2020, (void**, size_t bytes, unsigned flags))                 \
  X(host_free, "cuMemFreeHost", 2000, (void*))                                                     \
  X(host_register, "cuMemHostRegister", 6050, (void*, size_t bytes, unsigned flags))               \
  X(host_unregister, "cuMemHostUnregister", 4000, (void*))                                         \
  X(copy_async,                                                                                    \
    "cuMemcpyAsync",                                                                               \
    4000,                                                                                          \
    (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle))                            \
  X(pointer_attribute, "cuPointerGetAttribute", 4000, (void* value, int attribute, DeviceAddress)) \
  X(address_range,                                                                                 \
    "cuMemGetAddressRange",                                                                        \
    3020,                                                                                          \
    (DeviceAddress * base, size_t * bytes, DeviceAddress))                                         \
  X(ipc_export, "cuIpcGetMemHandle", 4010, (IpcMemory*, DeviceAddress base))                       \
  X(ipc_open, "cuIpcOpenMemHandle", 11000, (DeviceAddress*, IpcMemory, unsigned flags))            \
  X(ipc_close, "cuIpcCloseMemHandle", 4010, (DeviceAddress))                                       \
  X(module_load, "cuModuleLoadData", 2000, (ModuleHandle*, const void* image))                     \
  X(module_unload, "cuModuleUnload", 2000, (ModuleHandle))                                         \
  X(module_function,                                                                               \
    "cuModuleGetFunction",                                                                         \
    2000,                                                                                          \
    (FunctionHandle*, ModuleHandle, const char* name))                                             \
  X(launch,                                                                                        \
    "cuLaunchKernel",                                                                              \
    4000,                                                                                          \
    (FunctionHandle,                                                                               \
     unsigned grid_x,                                                                              \
     unsigned grid_y,                                                                              \
     unsigned grid_z,                                                                              \
     unsigned block_x,                                                                             \
     unsigned block_y,                                                                             \
     unsigned block_z,                                                                             \
     unsigned shared_bytes,                                                                        \
     StreamHandle,                                                                                 \
     void** arguments,                                                                             \
     void** extra))

struct Driver {
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration
#define HORING_DRIVER_MEMBER(member, call, version, signature) \
  DriverResult(*member) signature = nullptr;
  HORING_DRIVER_CALLS(HORING_DRIVER_MEMBER)
// NOLINTEND(bugprone-macro-parentheses)
#undef HORING_DRIVER_MEMBER
  // What module_load takes: the kernels of this build, of a test its own. Empty: none were built.
  std::span<const std::byte> kernels;
  // Not the driver's: what tests want to be told, null otherwise (Device::host_reads()).
  void (*host_reads)(const void* memory, size_t bytes) = nullptr;
  void (*host_writes)(const void* memory, size_t bytes) = nullptr;
};

inline constexpr int kMinDriverVersion = 12000;

// The installed driver's, with the kernels of this build; loaded once per process and never
// unloaded. kUnsupported, and why, where there is none, where it is too old (named, with the least
// version) or lacks a call (named). Programs that test have another driver() in its place.
[[nodiscard]] Result<const Driver*> driver();

// "12.4": the newest CUDA that the driver is made for.
[[nodiscard]] Result<std::string> cuda_version(const Driver& driver);

// "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered): the
// context is lost; end this process and start it again"
[[nodiscard]] Status driver_error(const Driver& driver, std::string_view call, DriverResult result);

}  // namespace ho::device
