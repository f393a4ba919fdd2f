// Pinned memory that bytes pass through between the host's memory and a stream, in a ring of slots
// that is made once. What comes from the device is delivered when somebody needs the slot, or asks.
//
// One thread at a time. The context is current for all but create().
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "device/device.hpp"
#include "os/clock.hpp"

namespace paro {

// Waits for an event by asking, so that others' work on the device goes on. An abort of the job
// ends what holds the stream, and so the wait.
struct DeviceWait {
  std::chrono::milliseconds timeout{600'000};

  [[nodiscard]] ho::Status until_passed(const ho::device::Event& event) const;
  // The same until then at most: whether it has passed.
  [[nodiscard]] ho::Result<bool> passed_by(const ho::device::Event& event,
                                           ho::Deadline until) const;
};

// Where what was fetched goes: to bytes as they are, or to fp32 numbers, each times the factor.
struct Delivery {
  std::byte* bytes = nullptr;
  float* numbers = nullptr;
  ho::DType dtype = ho::DType::kFloat32;
  double factor = 1;
};

class Staging {
 public:
  [[nodiscard]] static ho::Result<Staging> create(std::shared_ptr<const ho::device::Device> device,
                                                  size_t slots,
                                                  size_t slot_bytes);

  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] size_t bytes() const { return memory_.bytes().size(); }

  // What is written to the next slot, `slot_bytes` at most, and goes to `to` then.
  [[nodiscard]] ho::Result<std::span<std::byte>> begin_store(const DeviceWait& wait);
  [[nodiscard]] ho::Status store(ho::device::StreamHandle stream, size_t bytes, void* to);
  // `slot_bytes` at most.
  [[nodiscard]] ho::Status fetch(ho::device::StreamHandle stream,
                                 const DeviceWait& wait,
                                 const void* from,
                                 size_t bytes,
                                 const Delivery& delivery);
  // All that was fetched is there.
  [[nodiscard]] ho::Status deliver_all(const DeviceWait& wait);
  // The same within that time, or whatever the wait permits where it is 0: whether it is there.
  [[nodiscard]] ho::Result<bool> delivered_within(const DeviceWait& wait,
                                                  std::chrono::milliseconds limit);

 private:
  struct Slot {
    std::span<std::byte> bytes;
    ho::device::Event copied;
    bool in_use = false;
    size_t fetched = 0;  // bytes; 0: it was a store
    Delivery delivery{};
  };
  Staging(std::shared_ptr<const ho::device::Device> device,
          ho::device::PinnedMemory memory,
          std::vector<Slot> slots,
          size_t slot_bytes)
      : device_(std::move(device)),
        memory_(std::move(memory)),
        slots_(std::move(slots)),
        slot_bytes_(slot_bytes) {}
  // The slot is free afterwards.
  [[nodiscard]] ho::Status end_use(Slot& slot, const DeviceWait& wait);
  [[nodiscard]] ho::Status start_copy(
      Slot& slot, ho::device::StreamHandle stream, const void* from, void* to, size_t bytes);

  std::shared_ptr<const ho::device::Device> device_;
  ho::device::PinnedMemory memory_;
  std::vector<Slot> slots_;
  size_t slot_bytes_;
  size_t next_ = 0;  // the one that was used longest ago
};

}  // namespace paro
