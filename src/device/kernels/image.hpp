// The kernels that were compiled into this library.
#pragma once

#include <cstddef>
#include <span>

namespace ho::device {

// What cuModuleLoadData takes, 64-byte aligned. Empty where nvcc was not found when this was built.
[[nodiscard]] std::span<const std::byte> embedded_kernels();

}  // namespace ho::device
