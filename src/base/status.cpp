#include "base/status.hpp"

#include <cerrno>
#include <system_error>

#include "base/escaped.hpp"
#include "base/names.hpp"

namespace ho {

std::string_view to_string(StatusCode code) {
  constexpr Names<13> kNames{"ok",
                             "invalid argument",
                             "mismatch",
                             "timeout",
                             "aborted",
                             "peer lost",
                             "connection failed",
                             "not authenticated",
                             "protocol violation",
                             "unsupported",
                             "system error",
                             "out of memory",
                             "internal error"};
  static_assert(static_cast<size_t>(StatusCode::kInternal) + 1 == kNames.size());
  return name_in(kNames, code, "unknown status");
}

Status Status::with_context(std::string_view context) const {
  return {code_, std::string(context) + ": " + message_};
}

std::string Status::to_string() const {
  std::string text(ho::to_string(code_));
  return message_.empty() ? text : text + ": " + message_;
}

Status invalid(const std::string& message) {
  return {StatusCode::kInvalidArgument, message_text(message)};
}

Status system_error(std::string_view what, int errno_value) {
  const char* remedy = errno_value == EMFILE ? " (raise the limit of this process: ulimit -n)" : "";
  return {StatusCode::kSystem,
          message_text(std::string(what)) + ": " + std::generic_category().message(errno_value) +
              remedy};
}

}  // namespace ho
