// Errors as values. Every fallible function of the library returns Status or Result<T>; both are
// [[nodiscard]]. "Not yet" is never an error: operations that may be pending return that in their
// value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ho {

// The numbers are the C ABI's (include/horing.h, ho_status). HO_IN_PROGRESS (13) is no error and
// exists there only.
enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's arguments cannot work; nothing was sent
  kMismatch = 2,         // ranks disagree (sizes, types, operations, order, settings, versions)
  kTimeout = 3,          // the deadline passed
  kAborted = 4,          // a rank called abort
  kPeerLost = 5,         // a peer's process or host is gone
  kConnection = 6,       // a connection could not be made, was reset, or its rail is down
  kUnauthenticated = 7,  // a peer did not prove the job key, or none is set where one is needed
  kProtocol = 8,         // a peer's bytes are malformed
  kUnsupported = 9,      // this build, host or combination cannot do it
  kSystem = 10,          // a system call failed
  kOutOfMemory = 11,
  kInternal = 12,  // a bug in this library
};

[[nodiscard]] std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  // The same error with "context: " in front of its message.
  [[nodiscard]] Status with_context(std::string_view context) const;
  // "mismatch: text"
  [[nodiscard]] std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A kInvalidArgument error.
[[nodiscard]] Status invalid(const std::string& message);
// A kSystem error that names the call and errno's text: "bind(10.1.0.1:0): Address already in use".
[[nodiscard]] Status system_error(std::string_view what, int errno_value);

template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a value or an error is returned as it is
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace ho

#define HORING_CONCAT_INNER(a, b) a##b
#define HORING_CONCAT(a, b) HORING_CONCAT_INNER(a, b)

// Returns the error of a Status expression from the enclosing function.
#define HORING_TRY(expression)                                \
  do {                                                        \
    if (::ho::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses
// HORING_ASSIGN(auto x, fallible()): declares x from a Result, or returns its error.
#define HORING_ASSIGN(declaration, expression) \
  HORING_ASSIGN_INNER(HORING_CONCAT(result_, __LINE__), declaration, expression)
#define HORING_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression);                                \
  if (!name.ok()) {                                        \
    return name.status();                                  \
  }                                                        \
  declaration = std::move(name).value()
// NOLINTEND(bugprone-macro-parentheses)
