// What this library believes about CUDA (docs/design/device.md), each as a probe: a small program
// that fails where a driver does otherwise. They run on a GPU, and on the double, which must do the
// same.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "device/device.hpp"

namespace ho::device_suite {

// Device memory of several allocations of `bytes` each, one after the other in one range of
// addresses.
struct Segments {
  size_t bytes = 0;
  std::shared_ptr<void> first;  // its deleter frees them all
};

// What probes run on. The device's context is current.
struct Bench {
  std::shared_ptr<device::Device> device;
  std::shared_ptr<device::Device> second;  // null: there is one device only
  size_t bytes = size_t{1} << 20U;         // of copies
  // A module with the kernel probe_store(address, value), which writes 32 bits there.
  const void* image = nullptr;
  // Begins and ends a capture of the stream, by this thread, that refuses unsafe calls of all
  // threads. An error at its end: it was spoiled.
  std::function<Status(device::StreamHandle, bool begins)> capture;
  // Maps that many.
  std::function<Result<Segments>(size_t)> map_segments;
  // Runs this program again with these arguments: its exit status. Null: it cannot be.
  std::function<int(const std::string& what, const std::string& argument)> again;
};

struct Probe {
  const char* assumption;  // "A1"
  const char* name;
  // kUnsupported: it cannot be probed here, and why.
  Status (*run)(const Bench& bench);
};
[[nodiscard]] std::span<const Probe> probes();

// The other process of memory_of_another_process and of a_fault_loses_the_context.
[[nodiscard]] Status run_again(const Bench& bench,
                               const std::string& what,
                               const std::string& argument);

}  // namespace ho::device_suite
