#include "base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <exception>
#include <memory>
#include <string>

#include "base/env.hpp"
#include "base/escaped.hpp"
#include "base/logger.hpp"

namespace ho {
namespace {

std::string line_pattern(int rank) {
  const std::string who = rank < 0 ? "" : " rank " + std::to_string(rank);
  return "[%Y-%m-%d %H:%M:%S.%e] [horing" + who + "] [%l] %v";
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  static_assert(static_cast<int>(LogLevel::kTrace) == spdlog::level::trace);
  static_assert(static_cast<int>(LogLevel::kError) == spdlog::level::err);
  return static_cast<spdlog::level::level_enum>(level);
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto made =
      std::make_shared<spdlog::logger>("horing", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  made->set_pattern(line_pattern(-1));
  const std::string wanted = env::text(env::kLogLevel);
  const auto level = spdlog::level::from_str(wanted);
  const bool unknown = level == spdlog::level::off && wanted != "off";
  made->set_level(unknown ? spdlog::level::warn : level);
  if (unknown) {
    made->warn("{}={}: takes trace, debug, info, warn, error or off; using warn",
               env::kLogLevel.name,
               escaped(wanted));
  }
  made->flush_on(spdlog::level::trace);
  return made;
}

}  // namespace

// The one process-wide object: stderr is process-wide too. It is never destroyed: NCCL calls its
// plugin while the process exits.
spdlog::logger& logger() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  static const auto* const process_logger = new std::shared_ptr<spdlog::logger>(make_logger());
  return **process_logger;
}

void set_log_rank(int rank) {
  logger().set_pattern(line_pattern(rank));
}

void write_log(LogLevel level, fmt::string_view text, fmt::format_args arguments) noexcept {
  try {
    spdlog::logger& to = logger();
    const auto as = spdlog_level(level);
    if (to.should_log(as)) {
      const std::string line = message_text(fmt::vformat(text, arguments));
      to.log(as, spdlog::string_view_t(line));
    }
  } catch (const std::exception&) {  // NOLINT: no memory for a line
  }
}

}  // namespace ho
