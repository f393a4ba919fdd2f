#include "core/forward/host_functions.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>

#include "base/log.hpp"

namespace ho::plugin::forward {
namespace {

using nccl_abi::LogLevel;

void log_line(LogLevel level,
              unsigned long /*flags*/,
              const char* /*file*/,
              int /*line*/,
              const char* format,
              ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  if (written < 0) {
    return;
  }
  const bool warning = level == LogLevel::kWarn || level == LogLevel::kAbort;
  log_at(warning                     ? ho::LogLevel::kWarn
         : level == LogLevel::kTrace ? ho::LogLevel::kTrace
                                     : ho::LogLevel::kInfo,
         "{}",
         text.data());
}

nccl_abi::Result note_nothing(
    void** event, int /*type*/, void* /*parent*/, int64_t /*plugin_id*/, void* /*extra*/) {
  if (event != nullptr) {
    *event = nullptr;
  }
  return nccl_abi::Result::kSuccess;
}

}  // namespace

HostFunctions own_host_functions() {
  return {log_line, note_nothing};
}

void adopt(const Host& host, HostFunctions& functions) {
  // Back to the types that the adapters had them from.
  if (host.log != nullptr) {
    functions.log = reinterpret_cast<nccl_abi::DebugLogger>(host.log);  // NOLINT
  }
  if (host.profiler != nullptr) {
    functions.profiler = reinterpret_cast<nccl_abi::ProfilerCallback>(host.profiler);  // NOLINT
  }
}

}  // namespace ho::plugin::forward
