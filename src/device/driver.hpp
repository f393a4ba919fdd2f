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

// Each returns a DriverResult. What a call does and when is cuda.h's; the assumptions that this
// library makes beyond that are listed in docs/design/device.md.
struct Driver {
  DriverResult (*init)(unsigned flags) = nullptr;
  DriverResult (*version)(int* version) = nullptr;  // 12040: 12.4
  DriverResult (*error_name)(DriverResult, const char** name) = nullptr;
  DriverResult (*error_text)(DriverResult, const char** text) = nullptr;
  DriverResult (*device_count)(int* count) = nullptr;
  DriverResult (*device_get)(Ordinal* device, int ordinal) = nullptr;
  DriverResult (*device_name)(char* name, int bytes, Ordinal) = nullptr;
  DriverResult (*device_attribute)(int* value, int attribute, Ordinal) = nullptr;
  DriverResult (*device_memory)(size_t* bytes, Ordinal) = nullptr;
  DriverResult (*device_pci_bus_id)(char* id, int bytes, Ordinal) = nullptr;
  DriverResult (*device_uuid)(DeviceUuid*, Ordinal) = nullptr;  // of MIG: of the slice
  DriverResult (*can_access_peer)(int* can, Ordinal device, Ordinal peer) = nullptr;
  DriverResult (*primary_context_retain)(ContextHandle*, Ordinal) = nullptr;
  DriverResult (*primary_context_release)(Ordinal) = nullptr;
  DriverResult (*context_push)(ContextHandle) = nullptr;
  DriverResult (*context_pop)(ContextHandle*) = nullptr;
  DriverResult (*context_enable_peer)(ContextHandle peer, unsigned flags) = nullptr;
  DriverResult (*context_priorities)(int* least, int* greatest) = nullptr;  // of streams
  DriverResult (*thread_capture_mode)(int* mode) = nullptr;  // exchanged with the thread's
  DriverResult (*stream_create)(StreamHandle*, unsigned flags, int priority) = nullptr;
  DriverResult (*stream_destroy)(StreamHandle) = nullptr;
  DriverResult (*stream_synchronize)(StreamHandle) = nullptr;  // at teardown only
  DriverResult (*stream_wait_event)(StreamHandle, EventHandle, unsigned flags) = nullptr;
  DriverResult (*stream_context)(StreamHandle, ContextHandle*) = nullptr;
  DriverResult (*stream_capturing)(StreamHandle, int* status) = nullptr;
  DriverResult (*stream_host_function)(StreamHandle, HostFunction, void* argument) = nullptr;
  DriverResult (*event_create)(EventHandle*, unsigned flags) = nullptr;
  DriverResult (*event_destroy)(EventHandle) = nullptr;
  DriverResult (*event_record)(EventHandle, StreamHandle) = nullptr;
  DriverResult (*event_query)(EventHandle) = nullptr;
  DriverResult (*memory_allocate)(DeviceAddress*, size_t bytes) = nullptr;  // never on the hot path
  DriverResult (*memory_free)(DeviceAddress) = nullptr;
  DriverResult (*host_allocate)(void**, size_t bytes, unsigned flags) = nullptr;
  DriverResult (*host_free)(void*) = nullptr;
  DriverResult (*host_register)(void*, size_t bytes, unsigned flags) = nullptr;
  DriverResult (*host_unregister)(void*) = nullptr;
  DriverResult (*copy_async)(DeviceAddress to,
                             DeviceAddress from,
                             size_t bytes,
                             StreamHandle) = nullptr;
  DriverResult (*pointer_attribute)(void* value, int attribute, DeviceAddress) = nullptr;
  DriverResult (*address_range)(DeviceAddress* base, size_t* bytes, DeviceAddress) = nullptr;
  DriverResult (*ipc_export)(IpcMemory*, DeviceAddress base) = nullptr;
  DriverResult (*ipc_open)(DeviceAddress*, IpcMemory, unsigned flags) = nullptr;
  DriverResult (*ipc_close)(DeviceAddress) = nullptr;
  DriverResult (*module_load)(ModuleHandle*, const void* image) = nullptr;
  DriverResult (*module_unload)(ModuleHandle) = nullptr;
  DriverResult (*module_function)(FunctionHandle*, ModuleHandle, const char* name) = nullptr;
  DriverResult (*launch)(FunctionHandle,
                         unsigned grid_x,
                         unsigned grid_y,
                         unsigned grid_z,
                         unsigned block_x,
                         unsigned block_y,
                         unsigned block_z,
                         unsigned shared_bytes,
                         StreamHandle,
                         void** arguments,
                         void** extra) = nullptr;
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
