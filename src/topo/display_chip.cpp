#include "topo/display_chip.hpp"

#include <algorithm>
#include <array>

namespace ho {
namespace {

// Makers of display chips for servers, and of virtual ones; none makes a GPU that computes.
constexpr std::array<uint16_t, 9> kDisplayMakers{
    0x1013,  // Cirrus, as QEMU has it
    0x102b,  // Matrox G200 and its kin
    0x1234,  // QEMU and Bochs
    0x126f,  // Silicon Motion
    0x15ad,  // VMware
    0x18ca,  // XGI Volari
    0x19e5,  // Huawei iBMC; its accelerators are recognized by their class
    0x1a03,  // ASPEED
    0x1b36,  // Red Hat QXL
};

constexpr uint16_t kAti = 0x1002;
// Of a maker of GPUs, but soldered to server boards as a display.
constexpr std::array<uint16_t, 7> kAtiServerChips{
    0x4749,  // Rage 3D Pro
    0x474d,  // Rage XL
    0x474f,  // Rage XL
    0x4752,  // Rage XL
    0x5159,  // RV100, Radeon 7000
    0x515e,  // ES1000
    0x5969,  // ES1000
};

template <typename Numbers>
bool has(const Numbers& numbers, uint16_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

}  // namespace

bool only_displays(uint16_t vendor, uint16_t device) {
  return has(kDisplayMakers, vendor) || (vendor == kAti && has(kAtiServerChips, device));
}

}  // namespace ho
