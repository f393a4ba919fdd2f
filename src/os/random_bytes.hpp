// Unpredictable bytes from the kernel.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.hpp"

namespace ho {

[[nodiscard]] Status fill_random(std::span<std::byte> bytes);

}  // namespace ho
