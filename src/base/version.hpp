#pragma once

#include <cstdint>

namespace ho {

// Ranks of one job must run the same wire version; it changes with every change to bytes on the
// wire or to the plans that builders make.
inline constexpr uint32_t kWireVersion = 8;

}  // namespace ho
