// Who adds what lies in pinned memory: a core of the host, or the device's kernel across the bus.
#pragma once

#include "device/work/work.hpp"

namespace ho {

struct PinnedSumRates {
  double host = 0;  // bytes of the sum per second
  double device = 0;
};

// Measured with fp32 sums of 1 MiB, once per process and device. May wait for the device: set-up.
[[nodiscard]] Result<PinnedSumRates> pinned_sum_rates(device::Work& work);

}  // namespace ho
