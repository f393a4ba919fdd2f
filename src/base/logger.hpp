// What is behind base/log.hpp, for those who add sinks or set levels.
#pragma once

#include <spdlog/spdlog.h>

namespace ho {

// The process's logger. Thread-safe.
[[nodiscard]] spdlog::logger& logger();

}  // namespace ho
