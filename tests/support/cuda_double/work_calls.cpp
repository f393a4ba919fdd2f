// Copies and kernels.
#include <array>
#include <bit>
#include <cstring>

#include "calls.hpp"

namespace ho::cuda_double {
namespace {

using device::DeviceAddress;
using device::DriverResult;
using device::FunctionHandle;
using device::ModuleHandle;
using device::StreamHandle;

constexpr std::array<std::byte, 16> kToken{std::byte{'h'},
                                           std::byte{'o'},
                                           std::byte{'-'},
                                           std::byte{'d'},
                                           std::byte{'o'},
                                           std::byte{'u'},
                                           std::byte{'b'},
                                           std::byte{'l'},
                                           std::byte{'e'},
                                           std::byte{'-'},
                                           std::byte{'k'},
                                           std::byte{'e'},
                                           std::byte{'r'},
                                           std::byte{'n'},
                                           std::byte{'e'},
                                           std::byte{'l'}};

struct Side {
  std::shared_ptr<Region> region;  // null: pageable
  std::byte* alias = nullptr;
  [[nodiscard]] bool is_device() const { return region != nullptr && region->is_device(); }
};

Side side_of(Machine& machine, DeviceAddress address) {
  const auto region = machine.regions.find(address);
  if (region == nullptr || region->ended()) {
    return {nullptr, std::bit_cast<std::byte*>(address)};
  }
  return {region, region->alias + (address - region->begin)};
}

std::string side_text(const Side& side, DeviceAddress address) {
  if (side.region == nullptr) {
    return "ordinary memory";
  }
  return (side.region->is_device() ? "device memory+" : "pinned memory+") +
         std::to_string(address - side.region->begin);
}

DriverResult copy_async(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle handle) {
  Call call("copy_async", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  Machine& machine = call.machine();
  StreamState* const stream = stream_for(call, handle);
  if (stream == nullptr) {
    return device::kInvalidHandle;
  }
  if (stream->capture) {
    machine.violation("copy_async on a stream that is being captured");
    return device::kCaptureUnsupported;
  }
  const Side target = side_of(machine, to);
  const Side source = side_of(machine, from);
  Request request;
  request.what = "copy_async of " + std::to_string(bytes) + " bytes from " +
                 side_text(source, from) + " to " + side_text(target, to);
  request.ranges = {{std::bit_cast<const void*>(from), bytes, false},
                    {std::bit_cast<const void*>(to), bytes, true}};
  if (source.region == nullptr && machine.config.allow_pageable) {
    // Staged before the call returns: the caller may use the source again.
    const std::vector<std::byte> staged(source.alias, source.alias + bytes);
    request.body = [staged, out = target.alias] { std::memcpy(out, staged.data(), staged.size()); };
  } else {
    request.body = [in = source.alias, out = target.alias, bytes] { std::memmove(out, in, bytes); };
  }
  DriverResult result = device::kSuccess;
  const bool on_device = target.is_device() || source.is_device();
  const OperationPtr operation = machine.enqueue(call.lock(), *stream, std::move(request), result);
  // As CUDA does for pageable targets, and from host to host.
  if (operation != nullptr && (target.region == nullptr || !on_device)) {
    ++machine.synchronizing;
    machine.wait_for(call.lock(), operation);
    machine.thread().clock.join(operation->step.clock);
  }
  return result;
}

// --- Kernels ---------------------------------------------------------------------------------

DriverResult module_load(ModuleHandle* module, const void* image) {
  Call call("module_load", kNeedsContext | kSynchronizes | kAllocates);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  if (image == nullptr || std::memcmp(image, kToken.data(), kToken.size()) != 0) {
    return device::kInvalidImage;
  }
  ContextState* const context = call.context();
  call.machine().drain(call.lock(), context->device);
  *module = std::bit_cast<ModuleHandle>(call.machine().next_handle());
  call.machine().modules[*module] = {context};
  return device::kSuccess;
}

DriverResult module_unload(ModuleHandle module) {
  Call call("module_unload", kNeedsContext | kSynchronizes);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  call.machine().drain(call.lock(), call.context()->device);
  if (call.machine().modules.erase(module) == 0) {
    call.machine().violation("module_unload of a module that is not loaded");
    return device::kInvalidHandle;
  }
  return device::kSuccess;
}

DriverResult module_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  Call call("module_function", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  if (!call.machine().modules.contains(module)) {
    return device::kInvalidHandle;
  }
  if (call.machine().kernels.find(name) == call.machine().kernels.end()) {
    return device::kNotFound;
  }
  *function = std::bit_cast<FunctionHandle>(call.machine().next_handle());
  call.machine().functions[*function] = name;
  return device::kSuccess;
}

// A launch's arguments, copied.
struct Arguments {
  Arguments(void** queued, const std::vector<size_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto* const bytes = static_cast<const std::byte*>(queued[i]);
      // Aligned as any parameter may be.
      auto& value =
          values.emplace_back((sizes[i] + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
      std::memcpy(value.data(), bytes, sizes[i]);
    }
    for (auto& value : values) {
      pointers.push_back(value.data());
    }
  }
  std::vector<std::vector<std::max_align_t>> values;
  std::vector<void*> pointers;
};

bool is_shape(unsigned x, unsigned y, unsigned z, unsigned most) {
  return x > 0 && y > 0 && z > 0 && y <= 65535 && z <= 65535 && (most == 0 || x * y * z <= most);
}

DriverResult launch_kernel(Call& call,
                           const std::string& name,
                           StreamHandle handle,
                           void** arguments) {
  StreamState* const stream = stream_for(call, handle);
  if (stream == nullptr || stream->context != call.context()) {
    return device::kInvalidHandle;
  }
  if (stream->capture) {
    call.machine().violation("launch of " + name + " on a stream that is being captured");
    return device::kCaptureUnsupported;
  }
  const KernelDefinition& kernel = call.machine().kernels.find(name)->second;
  const auto copied = std::make_shared<Arguments>(arguments, kernel.argument_bytes);
  Request request;
  request.what = "launch of " + name;
  request.ranges = kernel.ranges(copied->pointers.data());
  request.is_kernel = true;
  for (const TouchedRange& range : request.ranges) {
    call.machine().written_bytes[name] += range.writes ? range.bytes : 0;
  }
  request.body = [copied, body = kernel.body] { body(copied->pointers.data(), alias_of); };
  DriverResult result = device::kSuccess;
  call.machine().enqueue(call.lock(), *stream, std::move(request), result);
  return result;
}

DriverResult launch(FunctionHandle function,
                    unsigned grid_x,
                    unsigned grid_y,
                    unsigned grid_z,
                    unsigned block_x,
                    unsigned block_y,
                    unsigned block_z,
                    unsigned shared_bytes,
                    StreamHandle handle,
                    void** arguments,
                    void** extra) {
  constexpr unsigned kMaxBlockThreads = 1024;
  constexpr unsigned kMaxSharedBytes = 48 * 1024;  // without asking for more
  Call call("launch", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const auto found = call.machine().functions.find(function);
  if (found == call.machine().functions.end()) {
    return device::kInvalidHandle;
  }
  if (!is_shape(grid_x, grid_y, grid_z, 0) ||
      !is_shape(block_x, block_y, block_z, kMaxBlockThreads) || shared_bytes > kMaxSharedBytes ||
      extra != nullptr) {
    return device::kInvalidValue;
  }
  return launch_kernel(call, found->second, handle, arguments);
}

}  // namespace

void* alias_of(const void* pointer) {
  Machine& the_machine = machine();
  const Machine::Lock lock(the_machine.mutex);
  return side_of(the_machine, std::bit_cast<DeviceAddress>(pointer)).alias;
}

std::span<const std::byte> token_image() {
  return kToken;
}

void fill_work_calls(device::Driver& table) {
  table.copy_async = copy_async;
  table.module_load = module_load;
  table.module_unload = module_unload;
  table.module_function = module_function;
  table.launch = launch;
}

}  // namespace ho::cuda_double
