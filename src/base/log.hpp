// The process's log, to stderr, through spdlog. A line has time, rank and event; it is
// formatted as fmt does. HORING_LOG_LEVEL sets the level (trace, debug, info, warn, error, off);
// the default is warn. Thread-safe.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <cstdint>

namespace ho {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError };

// Adds "rank R" to every later line. -1 takes it away again.
void set_log_rank(int rank);

// What the functions below share, compiled once: with spdlog's own calls every file that logs takes
// five seconds longer to compile.
void write_log(LogLevel level, fmt::string_view text, fmt::format_args arguments) noexcept;

template <typename... Arguments>
void log_at(LogLevel level, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(level, text, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void log_trace(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(LogLevel::kTrace, text, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void log_debug(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(LogLevel::kDebug, text, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void log_info(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(LogLevel::kInfo, text, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void log_warn(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(LogLevel::kWarn, text, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void log_error(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  write_log(LogLevel::kError, text, fmt::make_format_args(arguments...));
}

}  // namespace ho
