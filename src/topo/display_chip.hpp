// Chips that only show a picture: those of servers' management controllers and of virtual machines.
#pragma once

#include <cstdint>

namespace ho {

// By PCI vendor and device number.
[[nodiscard]] bool only_displays(uint16_t vendor, uint16_t device);

}  // namespace ho
