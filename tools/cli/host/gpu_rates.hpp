// How fast a GPU's copies are, measured with buffers of its own. What it prints and where is the
// caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "device/driver.hpp"
#include "os/clock.hpp"

namespace ho {

enum class CopyKind : uint8_t { kToDevice, kFromDevice, kBothWays, kWithin, kToPeer };
[[nodiscard]] std::string_view to_string(CopyKind kind);  // "to_device", as in JSON

struct CopyRate {
  CopyKind kind = CopyKind::kToDevice;
  int device = 0;
  int peer = -1;  // kToPeer: whose memory is written
  // Bytes copied, each counted once; of kBothWays the sum of both directions.
  double bytes_per_second = 0;
};

struct FailedDevice {
  int device = 0;
  Status status;
};

struct CopyRates {
  std::vector<CopyRate> rates;
  std::vector<FailedDevice> failed;  // of these, rates may be missing
};

struct RateLimits {
  Deadline deadline = deadline_after(std::chrono::seconds(60));
  // Called once, where it takes longer than this.
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  std::chrono::milliseconds quiet{2000};
  size_t bytes = size_t{64} << 20U;  // of a copy
  int timings = 5;                   // the median counts
};

// Copies between pinned memory and each device, both directions at once, within it, and to each
// other device of these that it can access. One device after the other; they need 2 buffers each
// on both sides. By the host's clock, from the first copy that is enqueued to the event after the
// last. Where a device does not end in time, its buffers are kept to the end of the process.
[[nodiscard]] CopyRates measure_copy_rates(const device::Driver& driver,
                                           std::span<const int> devices,
                                           const RateLimits& limits);

}  // namespace ho
