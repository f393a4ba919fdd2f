// The kernels of a device's context as all communicators of the process share them.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "device/kernels/kernels.hpp"

namespace ho::device {

// Loaded for the first who asks, which may wait for the device, and unloaded when the last has let
// go of them. They keep the device. The errors are Kernels::load()'s.
[[nodiscard]] Result<std::shared_ptr<const Kernels>> shared_kernels(const Device& device);

}  // namespace ho::device
