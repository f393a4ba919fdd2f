// HORING_TEST_MEMORY is device (the default here: all calls' memory is), mixed (a rank in three has
// none, and every second buffer of the others is pinned host memory) or host (of ranks that have a
// device).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "call_memory.hpp"
#include "cuda_double.hpp"
#include "device/device.hpp"
#include "must_have.hpp"
#include "transport/staged/shared_slots.hpp"

namespace ho::test {
namespace {

enum class Mode { kDevice, kMixed, kHost };
constexpr size_t kDevices = 2;
constexpr size_t kWithoutDevice = 3;  // of mixed ranks each that many has none

thread_local int32_t own_device = HO_DEVICE_NONE;

Mode mode() {
  const char* set = std::getenv("HORING_TEST_MEMORY");
  const std::string text = set == nullptr ? "device" : set;
  if (text != "device" && text != "mixed" && text != "host") {
    throw std::runtime_error("HORING_TEST_MEMORY=" + text + ": takes device, mixed or host");
  }
  return text == "device" ? Mode::kDevice : text == "mixed" ? Mode::kMixed : Mode::kHost;
}

struct OpenedDevices {
  std::mutex mutex;
  std::map<int, std::shared_ptr<device::Device>> by_ordinal;
};

OpenedDevices& opened_devices() {
  static OpenedDevices opened;
  return opened;
}

// Opened once: tests make many communicators.
std::shared_ptr<device::Device> device(int ordinal) {
  OpenedDevices& opened = opened_devices();
  const std::lock_guard lock(opened.mutex);
  auto& found = opened.by_ordinal[ordinal];
  if (found == nullptr) {
    found = must_have(device::Device::open(*must_have(device::driver()), ordinal));
  }
  return found;
}

void copy_now(const device::Device& on, void* to, const void* from, size_t bytes) {
  const auto current = must_have(device::CurrentContext::enter(on));
  const device::Driver& driver = on.driver();
  must_be_ok(on.check("cuMemcpyAsync",
                      driver.copy_async(reinterpret_cast<device::DeviceAddress>(to),
                                        reinterpret_cast<device::DeviceAddress>(from),
                                        bytes,
                                        nullptr)));
  must_be_ok(on.check("cuStreamSynchronize", driver.stream_synchronize(nullptr)));
}

}  // namespace

struct CallMemory::Held {
  std::shared_ptr<device::Device> device;
  device::DeviceMemory on_device;
  device::PinnedMemory pinned;  // of the buffer itself, or what is copied through
};

CallMemory::CallMemory(std::span<std::byte> host) : host_(host), memory_(host.data()) {
  const int32_t ordinal = own_device;
  if (ordinal == HO_DEVICE_NONE || host.empty() || mode() == Mode::kHost) {
    return;
  }
  thread_local size_t made = 0;
  held_ = std::make_unique<Held>();
  held_->device = device(ordinal);
  const auto current = must_have(device::CurrentContext::enter(*held_->device));
  held_->pinned = must_have(device::PinnedMemory::create(*held_->device, host.size()));
  std::memcpy(held_->pinned.bytes().data(), host.data(), host.size());
  if (mode() == Mode::kMixed && ++made % 2 == 0) {
    memory_ = held_->pinned.bytes().data();
    return;
  }
  held_->on_device = must_have(device::DeviceMemory::create(*held_->device, host.size()));
  memory_ = static_cast<std::byte*>(held_->on_device.pointer());
  copy_now(*held_->device, memory_, held_->pinned.bytes().data(), host.size());
}

CallMemory::~CallMemory() {
  if (held_ != nullptr) {
    const auto current = device::CurrentContext::enter(*held_->device);
    // A call returns before its work is done; the default stream waits for that.
    (void)held_->device->driver().stream_synchronize(nullptr);
    held_->on_device = {};
    held_->pinned = {};
  }
}

void CallMemory::take_back() {
  if (held_ == nullptr) {
    return;
  }
  std::byte* const pinned = held_->pinned.bytes().data();
  if (memory_ != pinned) {
    copy_now(*held_->device, pinned, memory_, host_.size());
  } else {
    const auto current = must_have(device::CurrentContext::enter(*held_->device));
    must_be_ok(held_->device->check("cuStreamSynchronize",
                                    held_->device->driver().stream_synchronize(nullptr)));
  }
  held_->device->host_reads(held_->pinned.bytes());
  std::memcpy(host_.data(), pinned, host_.size());
}

std::string memory_left_behind() {
  {
    OpenedDevices& opened = opened_devices();
    const std::lock_guard lock(opened.mutex);
    opened.by_ordinal.clear();
  }
  std::string text;
  for (const std::string& violation : cuda_double::violations()) {
    text += "violation: " + violation + "\n";
  }
  // What other ranks may still have open stays, and its devices with it.
  const size_t retired = SharedSlots::free_retired();
  cuda_double::Live live = cuda_double::live();
  live.device_memory -= std::min(live.device_memory, retired);
  live.contexts -= std::min(live.contexts, retired);
  const std::pair<const char*, size_t> counts[] = {
      {"contexts", live.contexts},
      {"streams", live.streams},
      {"events", live.events},
      {"allocations of the device", live.device_memory},
      {"pinned allocations", live.pinned_memory},
      {"opened allocations", live.opened_memory},
      {"modules", live.modules},
      {"works pending", live.pending}};
  for (const auto& [name, count] : counts) {
    if (count > 0) {
      text += "left behind: " + std::to_string(count) + " " + name + "\n";
    }
  }
  return text;
}

int32_t device_of(size_t rank) {
  const bool none = mode() == Mode::kMixed && rank % kWithoutDevice == 1;
  own_device = none ? HO_DEVICE_NONE : static_cast<int32_t>(rank % kDevices);
  return own_device;
}

}  // namespace ho::test
