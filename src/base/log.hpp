// One logger per process, to stderr, through spdlog. A line says when, which rank and what.
// HORING_LOG_LEVEL sets the level (trace, debug, info, warn, error, off); the default is warn.
#pragma once

#include <spdlog/spdlog.h>

namespace ho {

// The process's logger. Thread-safe.
[[nodiscard]] spdlog::logger& logger();
// Adds "rank R" to every later line. -1 takes it away again.
void set_log_rank(int rank);

}  // namespace ho
