// Every kernel of src/device/kernels as a function of the host, for doubles of the CUDA driver: it
// runs the same element functions over the same struct of arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace ho::test {

// What a kernel reads or writes: `bytes` from `address` on, as a device sees them.
struct TouchedRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool written = false;
  uint32_t item = 0;  // of a launch that does several things at once: which of them
};

// Where the host finds what the device sees at an address. What is contiguous for the device is
// contiguous for the host.
using Translate = std::function<void*(uint64_t address)>;

struct HostKernel {
  std::string_view name;
  size_t argument_bytes = 0;  // of the struct that arguments[0] points to: a launch copies it
  void (*run)(void** arguments, const Translate& translate) = nullptr;
  // No empty ones. What is read and written is two ranges.
  std::vector<TouchedRange> (*ranges)(void** arguments) = nullptr;
};

[[nodiscard]] std::span<const HostKernel> host_kernels();
// Null where no kernel has this name.
[[nodiscard]] const HostKernel* find_host_kernel(std::string_view name);

}  // namespace ho::test
