#include "adapter/boundary.hpp"

#include <optional>
#include <string>

#include "adapter/host_log.hpp"
#include "adapter/tuner_search.hpp"
#include "base/log.hpp"

namespace ho::plugin {

void log_thrown(const char* text) noexcept {
  try {
    log_error("horing plugin: {}", text);
  } catch (...) {  // NOLINT: then there is no log
  }
}

Plugin::Log log_of(nccl_abi::DebugLogger logger) {
  if (logger == nullptr) {
    return {};
  }
  return [logger](Plugin::Level level, const char* text) {
    const auto as = level == Plugin::Level::kWarn   ? nccl_abi::LogLevel::kWarn
                    : level == Plugin::Level::kInfo ? nccl_abi::LogLevel::kInfo
                                                    : nccl_abi::LogLevel::kTrace;
    logger(as, nccl_abi::kLogInit | nccl_abi::kLogNet, "horing", 0, "%s", text);
  };
}

Reply start(const std::string& interface, nccl_abi::DebugLogger logger) {
  // The logger is NCCL's own code.
  const auto* const code = reinterpret_cast<const void*>(logger);
  const auto search = [code,
                       taken = std::string(interface)](const std::optional<std::string>& setting) {
    return tuner_search(release_of(code, taken), setting);
  };
  return reply_of(Plugin::instance().start(interface, log_of(logger), search).code());
}

}  // namespace ho::plugin
