#include "on_device/staging.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "device/address.hpp"
#include "optim/gradients.hpp"

namespace paro {
namespace {

// A wait first offers its core to others, then it sleeps between two looks.
constexpr std::chrono::milliseconds kLooks{1};
constexpr std::chrono::microseconds kPause{50};

}  // namespace

ho::Status DeviceWait::until_passed(const ho::device::Event& event) const {
  HORING_ASSIGN(const bool passed, passed_by(event, ho::deadline_after(timeout)));
  return passed ? ho::Status()
                : ho::Status(ho::StatusCode::kTimeout,
                             "the device was not through with its stream after " +
                                 std::to_string(timeout.count()) +
                                 " ms; look for work on it that does not end (nvidia-smi, py-spy)");
}

ho::Result<bool> DeviceWait::passed_by(const ho::device::Event& event, ho::Deadline until) const {
  const ho::Deadline awake = ho::deadline_after(kLooks);
  for (;;) {
    HORING_ASSIGN(const bool passed, event.passed());
    if (passed) {
      return true;
    }
    if (ho::passed(until)) {
      return false;
    }
    if (ho::passed(awake)) {
      std::this_thread::sleep_for(kPause);
    } else {
      std::this_thread::yield();
    }
  }
}

ho::Result<Staging> Staging::create(std::shared_ptr<const ho::device::Device> device,
                                    size_t slots,
                                    size_t slot_bytes) {
  // Every element fits into a slot, and lies there as it must.
  constexpr size_t kElement = sizeof(uint64_t);
  if (slots == 0 || slot_bytes == 0 || slot_bytes % kElement != 0 ||
      slots > std::numeric_limits<size_t>::max() / slot_bytes) {
    return ho::invalid("pinned memory for device " + std::to_string(device->ordinal()) + ": " +
                       std::to_string(slots) + " slots of " + std::to_string(slot_bytes) +
                       " bytes; give one at least, of a multiple of " + std::to_string(kElement) +
                       " bytes");
  }
  HORING_ASSIGN(ho::device::PinnedMemory memory,
                ho::device::PinnedMemory::create(*device, slots * slot_bytes));
  std::vector<Slot> all;
  for (size_t slot = 0; slot < slots; ++slot) {
    HORING_ASSIGN(ho::device::Event copied, ho::device::Event::create(*device));
    all.push_back({memory.bytes().subspan(slot * slot_bytes, slot_bytes), std::move(copied)});
  }
  return Staging(std::move(device), std::move(memory), std::move(all), slot_bytes);
}

ho::Status Staging::end_use(Slot& slot, const DeviceWait& wait) {
  if (!slot.in_use) {
    return {};
  }
  HORING_TRY(wait.until_passed(slot.copied));
  slot.in_use = false;
  if (slot.fetched == 0) {
    return {};
  }
  const std::span<const std::byte> fetched = slot.bytes.first(slot.fetched);
  device_->host_reads(fetched);
  const Delivery& to = slot.delivery;
  if (to.numbers != nullptr) {
    const size_t count = fetched.size() / ho::size_bytes(to.dtype);
    unscale(to.dtype, fetched.data(), to.factor, {to.numbers, count});
  } else {
    std::ranges::copy(fetched, to.bytes);
  }
  return {};
}

ho::Status Staging::start_copy(
    Slot& slot, ho::device::StreamHandle stream, const void* from, void* to, size_t bytes) {
  slot.in_use = true;
  next_ = (next_ + 1) % slots_.size();
  HORING_TRY(
      device_->check("cuMemcpyAsync",
                     device_->driver().copy_async(
                         ho::device::address_of(to), ho::device::address_of(from), bytes, stream)));
  return slot.copied.record(stream);
}

ho::Result<std::span<std::byte>> Staging::begin_store(const DeviceWait& wait) {
  Slot& slot = slots_[next_];
  HORING_TRY(end_use(slot, wait));
  device_->host_writes(slot.bytes);
  return slot.bytes;
}

ho::Status Staging::store(ho::device::StreamHandle stream, size_t bytes, void* to) {
  Slot& slot = slots_[next_];
  slot.fetched = 0;
  return start_copy(slot, stream, slot.bytes.data(), to, bytes);
}

ho::Status Staging::fetch(ho::device::StreamHandle stream,
                          const DeviceWait& wait,
                          const void* from,
                          size_t bytes,
                          const Delivery& delivery) {
  Slot& slot = slots_[next_];
  HORING_TRY(end_use(slot, wait));
  slot.fetched = bytes;
  slot.delivery = delivery;
  return start_copy(slot, stream, from, slot.bytes.data(), bytes);
}

ho::Result<bool> Staging::delivered_within(const DeviceWait& wait,
                                           std::chrono::milliseconds limit) {
  const ho::Deadline until = ho::deadline_after(limit);
  for (const Slot& slot : slots_) {
    if (slot.in_use && limit.count() > 0) {
      HORING_ASSIGN(const bool passed, wait.passed_by(slot.copied, until));
      if (!passed) {
        return false;
      }
    }
  }
  HORING_TRY(deliver_all(wait));
  return true;
}

ho::Status Staging::deliver_all(const DeviceWait& wait) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    HORING_TRY(end_use(slots_[(next_ + i) % slots_.size()], wait));
  }
  return {};
}

}  // namespace paro
