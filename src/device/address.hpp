// One address space for the host and all devices (CUDA's unified addressing): an address is a
// pointer's value, whoever may follow it.
#pragma once

#include <bit>

#include "device/driver.hpp"

namespace ho::device {

[[nodiscard]] inline DeviceAddress address_of(const void* pointer) {
  return std::bit_cast<DeviceAddress>(pointer);
}
[[nodiscard]] inline void* pointer_to(DeviceAddress address) {
  return std::bit_cast<void*>(address);
}

}  // namespace ho::device
