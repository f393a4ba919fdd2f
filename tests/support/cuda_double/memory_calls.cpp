// Memory: allocated, freed, asked about, shared.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "calls.hpp"

namespace ho::cuda_double {
namespace {

using device::DeviceAddress;
using device::DriverResult;

constexpr unsigned kSetUp = kNeedsContext | kSynchronizes;

DriverResult memory_allocate(DeviceAddress* address, size_t bytes) {
  Call call("memory_allocate", kSetUp | kAllocates);
  if (call.refused() != device::kSuccess || bytes == 0) {
    return call.refused() != device::kSuccess ? call.refused() : device::kInvalidValue;
  }
  ContextState* const context = call.context();
  Machine& machine = call.machine();
  machine.drain(call.lock(), context->device);
  if (machine.regions.living_bytes(context->device) + bytes > machine.config.memory_bytes) {
    return device::kOutOfDeviceMemory;
  }
  const auto region = make_device_region(bytes, machine.config.mode != Mode::kTimed);
  if (region == nullptr) {
    return device::kOutOfDeviceMemory;
  }
  region->device = context->device;
  machine.regions.add(region);
  *address = region->begin;
  return device::kSuccess;
}

// The region that begins there, if it lives and is of that kind; else a violation.
std::shared_ptr<Region> living_at(Call& call, uintptr_t begin, bool is_device, const char* what) {
  const auto region = call.machine().regions.find(begin);
  if (region == nullptr || region->begin != begin ||
      (region->kind == MemoryKind::kDevice || region->kind == MemoryKind::kManaged) != is_device) {
    call.machine().violation(std::string(what) + " of an address that it did not allocate");
    return nullptr;
  }
  if (region->ended()) {
    call.machine().violation(std::string(what) + " of memory that call " +
                             std::to_string(region->freed_by) + " has freed");
    return nullptr;
  }
  return region;
}

// Freeing waits for the device today, but CUDA does not promise it: who frees must know that the
// last use is over.
bool may_end(Call& call, Region& region, const char* what) {
  const auto unknown = region.history.unknown_to(call.machine().thread().clock);
  if (unknown) {
    call.machine().violation(std::string(what) +
                             " of memory without knowing that this is over: " + *unknown);
  }
  return !unknown;
}

DriverResult memory_free(DeviceAddress address) {
  Call call("memory_free", kSetUp);
  if (call.refused() != device::kSuccess || address == 0) {
    return call.refused();
  }
  const int device = call.context()->device;
  const auto region = living_at(call, address, true, "memory_free");
  if (region == nullptr) {
    return device::kInvalidValue;
  }
  const bool permitted = may_end(call, *region, "memory_free");
  call.machine().drain(call.lock(), device);
  call.machine().drain(call.lock(), region->device);
  region->end(call.number());
  return permitted ? device::kSuccess : device::kInvalidValue;
}

DriverResult host_allocate(void** memory, size_t bytes, unsigned) {
  Call call("host_allocate", kSetUp | kAllocates);
  if (call.refused() != device::kSuccess || bytes == 0) {
    return call.refused() != device::kSuccess ? call.refused() : device::kInvalidValue;
  }
  ContextState* const context = call.context();
  call.machine().drain(call.lock(), context->device);
  const auto region = make_host_region(bytes);
  if (region == nullptr) {
    return device::kOutOfDeviceMemory;
  }
  region->device = context->device;
  call.machine().regions.add(region);
  *memory = region->alias;
  return device::kSuccess;
}

DriverResult host_free(void* memory) {
  Call call("host_free", kSetUp);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto region = living_at(call, std::bit_cast<uintptr_t>(memory), false, "host_free");
  if (region == nullptr || region->kind != MemoryKind::kPinned) {
    return device::kInvalidValue;
  }
  const bool permitted = may_end(call, *region, "host_free");
  // All devices reach it.
  for (int device = 0; device < call.machine().config.devices; ++device) {
    call.machine().drain(call.lock(), device);
  }
  region->end(call.number());
  return permitted ? device::kSuccess : device::kInvalidValue;
}

DriverResult host_register(void* memory, size_t bytes, unsigned) {
  Call call("host_register", kSetUp);
  if (call.refused() != device::kSuccess || bytes == 0) {
    return call.refused() != device::kSuccess ? call.refused() : device::kInvalidValue;
  }
  const auto begin = std::bit_cast<uintptr_t>(memory);
  for (const uintptr_t address : {begin, begin + bytes - 1}) {
    const auto known = call.machine().regions.find(address);
    if (known != nullptr && !known->ended()) {
      return device::kAlreadyPinned;
    }
  }
  const auto region = std::make_shared<Region>();
  region->kind = MemoryKind::kPinned;
  region->device = call.context()->device;
  region->begin = begin;
  region->bytes = bytes;
  region->alias = static_cast<std::byte*>(memory);
  call.machine().regions.add(region);
  return device::kSuccess;
}

DriverResult host_unregister(void* memory) {
  Call call("host_unregister", kSetUp);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto region = living_at(call, std::bit_cast<uintptr_t>(memory), false, "host_unregister");
  if (region == nullptr || region->kind != MemoryKind::kPinned) {
    return device::kInvalidValue;
  }
  const bool permitted = may_end(call, *region, "host_unregister");
  call.machine().drain(call.lock(), region->device);
  call.machine().regions.remove(region->begin);
  return permitted ? device::kSuccess : device::kInvalidValue;
}

DriverResult pointer_attribute(void* value, int attribute, DeviceAddress address) {
  Call call("pointer_attribute", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto region = call.machine().regions.find(address);
  if (region == nullptr || region->ended()) {
    return device::kInvalidValue;
  }
  const auto put = [&](auto what) { std::memcpy(value, &what, sizeof what); };
  switch (attribute) {
    case device::kPointerMemoryType:
      put(region->is_device() || region->kind == MemoryKind::kManaged ? device::kMemoryDevice
                                                                      : device::kMemoryHost);
      return device::kSuccess;
    case device::kPointerIsManaged:
      put(static_cast<uint8_t>(region->kind == MemoryKind::kManaged ? 1 : 0));
      return device::kSuccess;
    case device::kPointerDeviceOrdinal:
      put(region->device);
      return device::kSuccess;
    case device::kPointerIsLegacyIpcCapable:
      put(static_cast<uint8_t>(region->kind == MemoryKind::kDevice && region->segment_bytes == 0 &&
                                       call.machine().config.ipc
                                   ? 1
                                   : 0));
      return device::kSuccess;
    default:
      return device::kInvalidValue;
  }
}

DriverResult address_range(DeviceAddress* base, size_t* bytes, DeviceAddress address) {
  Call call("address_range", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto region = call.machine().regions.find(address);
  if (region == nullptr || region->ended() || region->kind == MemoryKind::kPinned) {
    return device::kNotFound;
  }
  const size_t segment = region->segment_bytes == 0 ? region->bytes : region->segment_bytes;
  const size_t begin = (address - region->begin) / segment * segment;
  *base = region->begin + begin;
  *bytes = std::min(segment, region->bytes - begin);
  return device::kSuccess;
}

// --- Between processes -----------------------------------------------------------------------

DriverResult ipc_export(device::IpcMemory* memory, DeviceAddress base) {
  Call call("ipc_export", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto region = call.machine().regions.find(base);
  if (!call.machine().config.ipc) {
    return device::kNotSupported;
  }
  if (region == nullptr || region->ended() || region->kind != MemoryKind::kDevice ||
      region->begin != base || region->segment_bytes != 0) {
    return device::kInvalidValue;
  }
  *memory = export_region(*region);
  return device::kSuccess;
}

DriverResult ipc_open(DeviceAddress* address, device::IpcMemory memory, unsigned flags) {
  Call call("ipc_open", kSetUp | kAllocates);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto file = read_ipc(memory);
  if (!file || flags != device::kIpcLazyPeerAccess) {
    return device::kInvalidValue;
  }
  if (file->pid == ::getpid()) {
    return device::kInvalidContext;
  }
  ContextState* const context = call.context();
  call.machine().drain(call.lock(), context->device);
  auto region = call.machine().regions.find_opened(*file);
  if (region == nullptr) {
    region = open_region(*file);
    if (region == nullptr || region->exporter_freed()) {
      return device::kInvalidValue;
    }
    call.machine().regions.add(region);
    call.machine().regions.note_opened(*file, region);
  }
  ++region->opened;
  *address = region->begin;
  return device::kSuccess;
}

DriverResult ipc_close(DeviceAddress address) {
  Call call("ipc_close", kSetUp);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const int device = call.context()->device;
  const auto region = call.machine().regions.find(address);
  if (region == nullptr || region->kind != MemoryKind::kOpened || region->ended() ||
      region->begin != address) {
    call.machine().violation("ipc_close of an address that is not open");
    return device::kInvalidValue;
  }
  const bool permitted = may_end(call, *region, "ipc_close");
  call.machine().drain(call.lock(), device);
  if (--region->opened == 0) {
    region->end(call.number());
  }
  return permitted ? device::kSuccess : device::kInvalidValue;
}

}  // namespace

void fill_memory_calls(device::Driver& table) {
  table.memory_allocate = memory_allocate;
  table.memory_free = memory_free;
  table.host_allocate = host_allocate;
  table.host_free = host_free;
  table.host_register = host_register;
  table.host_unregister = host_unregister;
  table.pointer_attribute = pointer_attribute;
  table.address_range = address_range;
  table.ipc_export = ipc_export;
  table.ipc_open = ipc_open;
  table.ipc_close = ipc_close;
}

}  // namespace ho::cuda_double
