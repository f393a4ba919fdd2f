// States on a device of the double.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "must_have.hpp"
#include "on_device/device_state_memory.hpp"
#include "state_cases.hpp"

namespace paro {

inline std::shared_ptr<ho::device::Device> open_device() {
  return ho::test::must_have(
      ho::device::Device::open(*ho::test::must_have(ho::device::driver()), 0));
}

// A stream as a framework has one, and memory for states on it, with slots so small that they are
// used again and again.
struct StatesOnDouble {
  explicit StatesOnDouble(const ho::cuda_double::Config& config = {})
      : device((ho::cuda_double::reset(config), open_device())),
        stream(ho::test::must_have(ho::device::Stream::create(*device))),
        memory(ho::test::must_have(DeviceStateMemory::create(
            device, stream.handle(), {.slots = 3, .slot_bytes = 4096}))) {}
  std::shared_ptr<ho::device::Device> device;
  ho::device::Stream stream;
  std::unique_ptr<DeviceStateMemory> memory;
};

inline bool nothing_violated() {
  const auto all = ho::cuda_double::take_violations();
  UNSCOPED_INFO((all.empty() ? std::string() : all.front()));
  return all.empty();
}

}  // namespace paro
