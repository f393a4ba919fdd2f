// Devices, contexts, streams and events.
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "calls.hpp"
#include "os/shared_library.hpp"

namespace ho::cuda_double {
namespace {

using device::ContextHandle;
using device::DriverResult;
using device::EventHandle;
using device::Ordinal;
using device::StreamHandle;

DriverResult init(unsigned flags) {
  Call call("init", 0);
  if (call.refused() == device::kSuccess && flags == 0) {
    call.machine().initialized = true;
  }
  return flags == 0 ? call.refused() : device::kInvalidValue;
}

DriverResult version(int* version) {
  const Call call("version", kAlways);
  *version = device::kMinDriverVersion;
  return device::kSuccess;
}

constexpr std::array<std::pair<DriverResult, const char*>, 17> kNames{{
    {device::kSuccess, "CUDA_SUCCESS"},
    {device::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {device::kOutOfDeviceMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {device::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {device::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    {device::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {device::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {device::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {device::kNotReady, "CUDA_ERROR_NOT_READY"},
    {device::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {device::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {device::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED"},
    {device::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
    {device::kAlreadyPinned, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {device::kNotPinned, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {device::kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {device::kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
}};

DriverResult error_name(DriverResult result, const char** name) {
  const Call call("error_name", kAlways);
  const auto* const found =
      std::ranges::find(kNames, result, &std::pair<DriverResult, const char*>::first);
  *name = found == kNames.end() ? nullptr : found->second;
  return found == kNames.end() ? device::kInvalidValue : device::kSuccess;
}

// After a violation the text is what was violated, so that it shows in whatever error follows.
DriverResult error_text(DriverResult result, const char** text) {
  Call call("error_text", kAlways);
  thread_local std::string kept;
  kept = "as the CUDA double was told to answer";
  if (!call.machine().violations.empty()) {
    kept = "the CUDA double saw: " + call.machine().violations.front();
  }
  *text = kept.c_str();
  return result == device::kSuccess ? device::kInvalidValue : device::kSuccess;
}

DriverResult device_count(int* count) {
  Call call("device_count", kNeedsInit);
  *count = call.machine().config.devices;
  return call.refused();
}

bool is_device(Call& call, Ordinal device) {
  return device >= 0 && device < call.machine().config.devices;
}

DriverResult device_get(Ordinal* device, int ordinal) {
  Call call("device_get", kNeedsInit);
  *device = ordinal;
  return call.refused() != device::kSuccess || is_device(call, ordinal) ? call.refused()
                                                                        : device::kInvalidDevice;
}

DriverResult device_name(char* name, int bytes, Ordinal device) {
  Call call("device_name", kNeedsInit);
  if (call.machine().config.one_model) {
    std::snprintf(name, static_cast<size_t>(bytes), "double");
  } else {
    std::snprintf(name, static_cast<size_t>(bytes), "double %d", device);
  }
  return call.refused();
}

DriverResult device_attribute(int* value, int attribute, Ordinal) {
  Call call("device_attribute", kNeedsInit);
  switch (attribute) {
    case device::kComputeCapabilityMajor:
      *value = 9;
      break;
    case device::kComputeCapabilityMinor:
      *value = 0;
      break;
    case device::kMultiprocessorCount:
      *value = 4;
      break;
    default:
      return device::kInvalidValue;
  }
  return call.refused();
}

DriverResult device_memory(size_t* bytes, Ordinal) {
  Call call("device_memory", kNeedsInit);
  *bytes = call.machine().config.memory_bytes;
  return call.refused();
}

DriverResult device_pci_bus_id(char* id, int bytes, Ordinal device) {
  Call call("device_pci_bus_id", kNeedsInit);
  // In capital letters, as drivers may write them.
  std::snprintf(id, static_cast<size_t>(bytes), "0000:%02X:00.0", device + 0x3a);
  return call.refused();
}

DriverResult device_uuid(device::DeviceUuid* uuid, Ordinal device) {
  Call call("device_uuid", kNeedsInit);
  std::memset(uuid->bytes, 0xd0, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(device);
  return call.refused();
}

DriverResult can_access_peer(int* can, Ordinal device, Ordinal peer) {
  Call call("can_access_peer", kNeedsInit);
  *can = call.machine().config.peers && device != peer ? 1 : 0;
  return call.refused();
}

DriverResult primary_context_retain(ContextHandle* context, Ordinal device) {
  Call call("primary_context_retain", kNeedsInit | kSpoilsCaptures);
  if (call.refused() != device::kSuccess || !is_device(call, device)) {
    return call.refused() != device::kSuccess ? call.refused() : device::kInvalidDevice;
  }
  ++call.machine().retained[device];
  *context = call.machine().contexts[static_cast<size_t>(device)]->handle;
  return device::kSuccess;
}

bool has_objects(Machine& machine, const ContextState* context) {
  const auto is_its = [&](const auto& entry) { return entry.second.context == context; };
  return std::ranges::any_of(machine.streams,
                             [&](const auto& entry) { return entry.second->context == context; }) ||
         std::ranges::any_of(machine.events, is_its) ||
         std::ranges::any_of(machine.modules, is_its) || machine.is_pending(context->device);
}

// With the last one the driver destroys the context and all in it, under whoever still uses it.
DriverResult primary_context_release(Ordinal device) {
  Call call("primary_context_release", kNeedsInit | kSpoilsCaptures);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  size_t& retained = call.machine().retained[device];
  if (retained == 0) {
    call.machine().violation("primary_context_release without primary_context_retain");
    return device::kInvalidContext;
  }
  if (retained == 1 &&
      has_objects(call.machine(), call.machine().contexts[static_cast<size_t>(device)].get())) {
    call.machine().violation("the primary context of device " + std::to_string(device) +
                             " is released for good while it has streams, events, modules or work");
  }
  --retained;
  return device::kSuccess;
}

DriverResult context_push(ContextHandle handle) {
  Call call("context_push", kNeedsInit);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  ContextState* const context = call.machine().context_of(handle);
  if (context == nullptr || (context->primary && call.machine().retained[context->device] == 0)) {
    call.machine().violation("context_push of a context that is not retained");
    return device::kInvalidContext;
  }
  call.machine().thread().contexts.push_back(context);
  call.machine().join_host();
  return device::kSuccess;
}

// Works after a failure too: the stack is the thread's.
DriverResult context_pop(ContextHandle* handle) {
  Call call("context_pop", kAlways);
  auto& contexts = call.machine().thread().contexts;
  if (contexts.empty()) {
    return device::kInvalidContext;
  }
  *handle = contexts.back()->handle;
  call.machine().publish_to_host();
  contexts.pop_back();
  return device::kSuccess;
}

DriverResult context_enable_peer(ContextHandle peer, unsigned) {
  Call call("context_enable_peer", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const ContextState* const other = call.machine().context_of(peer);
  if (other == nullptr || !call.machine().config.peers || other->device == call.context()->device) {
    return other == nullptr ? device::kInvalidContext : device::kInvalidDevice;
  }
  const bool is_new = call.context()->peers.insert(other->device).second;
  return is_new ? device::kSuccess : device::kPeerAccessAlreadyEnabled;
}

// --- Streams ---------------------------------------------------------------------------------

DriverResult context_priorities(int* least, int* greatest) {
  Call call("context_priorities", kNeedsContext);
  *least = 0;
  *greatest = kGreatestPriority;
  return call.refused();
}

// It asks for no context and is never refused.
DriverResult thread_capture_mode(int* mode) {
  Call call("thread_capture_mode", kAlways);
  if (*mode < device::kCaptureModeGlobal || *mode > device::kCaptureModeRelaxed) {
    return device::kInvalidValue;
  }
  std::swap(*mode, call.machine().thread().capture_mode);
  return device::kSuccess;
}

DriverResult stream_create(StreamHandle* stream, unsigned flags, int priority) {
  Call call("stream_create", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  StreamState* const made =
      call.machine().add_stream(call.context(), flags != device::kStreamNonBlocking, false);
  made->priority = std::clamp(priority, kGreatestPriority, 0);
  *stream = made->handle;
  return device::kSuccess;
}

// What it has pending goes on.
DriverResult stream_destroy(StreamHandle handle) {
  Call call("stream_destroy", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  if (handle == nullptr || stream_for(call, handle) == nullptr) {
    return device::kInvalidHandle;
  }
  call.machine().streams.erase(handle);
  return device::kSuccess;
}

DriverResult stream_synchronize(StreamHandle handle) {
  Call call("stream_synchronize", kNeedsContext | kSynchronizes);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  StreamState* const stream = stream_for(call, handle);
  if (stream == nullptr || stream->capture) {
    return stream == nullptr ? device::kInvalidHandle : device::kCaptureUnsupported;
  }
  const OperationPtr last = stream->last;
  if (last != nullptr) {
    call.machine().wait_for(call.lock(), last);
    call.machine().thread().clock.join(last->step.clock);
  }
  return device::kSuccess;
}

// Of several callers: wrappers around the table make the innermost look the same.
uint64_t note_wait_site(Machine& machine) {
  std::array<void*, 8> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  uint64_t id = 1469598103934665603U;
  std::string text;
  for (int i = 2; i < std::min(count, 7); ++i) {
    void* const frame = frames[static_cast<size_t>(i)];
    const LoadedFrom from = loaded_from(frame);
    const uint64_t offset = std::bit_cast<uint64_t>(frame) - std::bit_cast<uint64_t>(from.base);
    id = (id ^ offset) * 1099511628211U;
    std::array<char, 32> hex{};
    std::snprintf(hex.data(), hex.size(), "+0x%llx", static_cast<unsigned long long>(offset));
    text += (text.empty() ? "" : " < ") + from.file.substr(from.file.rfind('/') + 1) + hex.data();
  }
  WaitSite& site = machine.wait_sites[id];
  site.id = id;
  site.text = text;
  ++site.waits;
  return id;
}

// Whether a test wants this wait to be forgotten.
bool is_dropped(Machine& machine, StreamState& stream) {
  const uint64_t site = note_wait_site(machine);
  stream.waited_at.insert(site);
  const bool by_number = machine.drop_wait_in > 0 && --machine.drop_wait_in == 0;
  const bool dropped = by_number || machine.dropped_sites.contains(site);
  machine.dropped_waits += dropped ? uint64_t{1} : 0;
  return dropped;
}

EventState* event_for(Call& call, EventHandle handle) {
  const auto found = call.machine().events.find(handle);
  if (found == call.machine().events.end()) {
    call.machine().violation("an event that does not exist is used");
    return nullptr;
  }
  return &found->second;
}

// Refused, with a violation: nothing here may take part in a capture, nor spoil one.
bool may_enqueue(Call& call, const StreamState& stream, const char* what) {
  StreamState* const implied =
      stream.handle != nullptr ? nullptr : call.machine().captured_with_default(stream.context);
  if (implied != nullptr) {
    implied->capture->spoiled = true;
  }
  const bool refused = stream.capture || implied != nullptr;
  if (refused) {
    call.machine().violation(std::string(what) + " on a stream that is being captured");
  }
  return !refused;
}

DriverResult stream_wait_event(StreamHandle handle, EventHandle event_handle, unsigned) {
  Call call("stream_wait_event", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  StreamState* const stream = stream_for(call, handle);
  const EventState* const event = event_for(call, event_handle);
  if (stream == nullptr || event == nullptr) {
    return device::kInvalidHandle;
  }
  if (!may_enqueue(call, *stream, "stream_wait_event")) {
    return device::kCaptureUnsupported;
  }
  if (is_dropped(call.machine(), *stream) || event->recorded == nullptr) {
    return device::kSuccess;
  }
  Request request;
  request.what = "stream_wait_event for " + *event->recorded->step.what;
  request.also_after = {event->recorded};
  DriverResult result = device::kSuccess;
  call.machine().enqueue(call.lock(), *stream, std::move(request), result);
  return result;
}

DriverResult stream_context(StreamHandle handle, ContextHandle* context) {
  Call call("stream_context", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const StreamState* const stream = call.machine().stream_of(handle);
  if (stream == nullptr) {
    return device::kInvalidHandle;
  }
  *context = stream->context->handle;
  return device::kSuccess;
}

DriverResult stream_capturing(StreamHandle handle, int* status) {
  Call call("stream_capturing", kNeedsContext | kSafeInCapture);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const StreamState* const stream = call.machine().stream_of(handle);
  if (stream == nullptr) {
    return device::kInvalidHandle;
  }
  if (handle == nullptr && call.machine().captured_with_default(stream->context) != nullptr) {
    return device::kCaptureImplicit;  // which spoils nothing
  }
  *status = stream->capture ? 1 : device::kCaptureNone;
  return device::kSuccess;
}

DriverResult stream_host_function(StreamHandle handle,
                                  device::HostFunction function,
                                  void* argument) {
  Call call("stream_host_function", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  StreamState* const stream = stream_for(call, handle);
  if (stream == nullptr || function == nullptr) {
    return stream == nullptr ? device::kInvalidHandle : device::kInvalidValue;
  }
  if (!may_enqueue(call, *stream, "stream_host_function")) {
    return device::kCaptureUnsupported;
  }
  Request request;
  request.what = "host function";
  request.on_host = true;
  request.body = [function, argument] { function(argument); };
  DriverResult result = device::kSuccess;
  call.machine().enqueue(call.lock(), *stream, std::move(request), result);
  return result;
}

// --- Events ----------------------------------------------------------------------------------

DriverResult event_create(EventHandle* event, unsigned) {
  Call call("event_create", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  *event = std::bit_cast<EventHandle>(call.machine().next_handle());
  call.machine().events[*event] = {call.context(), nullptr};
  return device::kSuccess;
}

DriverResult event_destroy(EventHandle handle) {
  Call call("event_destroy", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  if (event_for(call, handle) == nullptr) {
    return device::kInvalidHandle;
  }
  call.machine().events.erase(handle);
  return device::kSuccess;
}

DriverResult event_record(EventHandle handle, StreamHandle stream_handle) {
  Call call("event_record", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  StreamState* const stream = stream_for(call, stream_handle);
  EventState* const event = event_for(call, handle);
  if (stream == nullptr || event == nullptr || stream->context != event->context) {
    return device::kInvalidHandle;
  }
  if (!may_enqueue(call, *stream, "event_record")) {
    return device::kCaptureUnsupported;
  }
  Request request;
  request.what = "event_record";
  DriverResult result = device::kSuccess;
  const OperationPtr recorded =
      call.machine().enqueue(call.lock(), *stream, std::move(request), result);
  const auto found = call.machine().events.find(handle);  // enqueueing let go of the lock
  if (found != call.machine().events.end()) {
    found->second.recorded = recorded;
  }
  return result;
}

DriverResult event_query(EventHandle handle) {
  Call call("event_query", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  const EventState* const event = event_for(call, handle);
  if (event == nullptr) {
    return device::kInvalidHandle;
  }
  const OperationPtr recorded = event->recorded;
  if (recorded == nullptr) {
    return device::kSuccess;
  }
  if (recorded->progress != Progress::kDone && call.machine().thread().waits_by_queries) {
    static_cast<void>(call.machine().pass_event_if_any(call.lock()));
  }
  if (recorded->progress != Progress::kDone) {
    call.machine().want(recorded);
    return device::kNotReady;
  }
  call.machine().thread().clock.join(recorded->step.clock);
  return device::kSuccess;
}

}  // namespace

void fill_object_calls(device::Driver& table) {
  table.init = init;
  table.version = version;
  table.error_name = error_name;
  table.error_text = error_text;
  table.device_count = device_count;
  table.device_get = device_get;
  table.device_name = device_name;
  table.device_attribute = device_attribute;
  table.device_memory = device_memory;
  table.device_pci_bus_id = device_pci_bus_id;
  table.device_uuid = device_uuid;
  table.can_access_peer = can_access_peer;
  table.primary_context_retain = primary_context_retain;
  table.primary_context_release = primary_context_release;
  table.context_push = context_push;
  table.context_pop = context_pop;
  table.context_enable_peer = context_enable_peer;
  table.context_priorities = context_priorities;
  table.thread_capture_mode = thread_capture_mode;
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.stream_synchronize = stream_synchronize;
  table.stream_wait_event = stream_wait_event;
  table.stream_context = stream_context;
  table.stream_capturing = stream_capturing;
  table.stream_host_function = stream_host_function;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_query;
}

}  // namespace ho::cuda_double
