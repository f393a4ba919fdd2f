#include "calls.hpp"

namespace ho::cuda_double {

using device::DriverResult;

Call::Call(const char* name, unsigned traits)
    : machine_(ho::cuda_double::machine()), lock_(machine_.mutex) {
  number_ = ++machine_.call_number;
  ++machine_.counts[name];
  machine_.join_host();
  refused_ = check(name, traits);
  if (machine_.config.mode == Mode::kTimed) {
    machine_.spend_host_time(name);
  }
}

Call::~Call() {
  machine_.publish_to_host();
}

DriverResult Call::injected(const char* name) {
  DriverResult result = device::kSuccess;
  for (Fault& fault : machine_.faults) {
    if (fault.left > 0 && (fault.name.empty() || fault.name == name) && --fault.left == 0 &&
        result == device::kSuccess) {
      result = fault.result;
    }
  }
  if (result == device::kIllegalAddress || result == device::kLaunchFailed) {
    machine_.lost = result;
  }
  return result;
}

DriverResult Call::check(const char* name, unsigned traits) {
  if ((traits & kAlways) != 0) {
    return device::kSuccess;
  }
  if (machine_.thread().in_work != nullptr) {
    machine_.violation(std::string(name) +
                       " is called in a host function: " + *machine_.thread().in_work->what);
    return device::kNotPermitted;
  }
  if (const DriverResult result = injected(name); result != device::kSuccess) {
    return result;
  }
  if (machine_.lost != device::kSuccess) {
    return machine_.lost;
  }
  if (!machine_.violations.empty()) {
    return device::kLaunchFailed;
  }
  if ((traits & (kNeedsInit | kNeedsContext)) != 0 && !machine_.initialized) {
    return device::kNotInitialized;
  }
  if ((traits & kNeedsContext) != 0 && context() == nullptr) {
    return device::kInvalidContext;
  }
  if ((traits & (kNeedsContext | kSpoilsCaptures)) != 0 && (traits & kSafeInCapture) == 0 &&
      machine_.spoils_a_capture()) {
    return device::kCaptureUnsupported;
  }
  if ((traits & kSynchronizes) != 0) {
    ++machine_.synchronizing;
  }
  if ((traits & kAllocates) != 0 && machine_.is_pending(context()->device)) {
    ++machine_.allocations_while_pending;
  }
  return device::kSuccess;
}

StreamState* stream_for(Call& call, device::StreamHandle handle) {
  StreamState* const stream = call.machine().stream_of(handle);
  if (stream == nullptr) {
    call.machine().violation("a stream that does not exist is used");
  }
  return stream;
}

const device::Driver& driver() {
  static const device::Driver kTable = [] {
    device::Driver table;
    fill_object_calls(table);
    fill_memory_calls(table);
    fill_work_calls(table);
    table.kernels = token_image();
    return table;
  }();
  return kTable;
}

}  // namespace ho::cuda_double
