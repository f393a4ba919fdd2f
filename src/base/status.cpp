#include "base/status.hpp"

#include <cerrno>
#include <system_error>

#include "base/shown.hpp"

namespace ho {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kTimeout:
      return "timeout";
    case StatusCode::kAborted:
      return "aborted";
    case StatusCode::kPeerLost:
      return "peer lost";
    case StatusCode::kConnection:
      return "connection failed";
    case StatusCode::kUnauthenticated:
      return "not authenticated";
    case StatusCode::kProtocol:
      return "protocol violation";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kSystem:
      return "system error";
    case StatusCode::kOutOfMemory:
      return "out of memory";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown status";
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
