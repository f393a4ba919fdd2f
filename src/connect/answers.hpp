// Whether the peer's kernel still answers what is sent to it, told from what this host's kernel
// knows of the connection (tcp_info). What decides is pure; only look_at_connection asks the
// kernel.
#pragma once

#include <netinet/tcp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.hpp"
#include "os/clock.hpp"

namespace ho::tcp {

// Nothing where the kernel does not tell.
using LookAtConnection = std::function<std::optional<tcp_info>(int fd)>;
[[nodiscard]] std::optional<tcp_info> look_at_connection(int fd);

// Bytes that were given to the kernel and that the peer's host has not acknowledged.
using CountUnacknowledged = std::function<std::optional<uint64_t>(int fd)>;
[[nodiscard]] std::optional<uint64_t> count_unacknowledged(int fd);

// Whether data or probes have been sent again and again without an answer, so far.
[[nodiscard]] bool unanswered(const tcp_info& details);

// Follows one connection.
class AnswerWatch {
 public:
  // An error once data has been unanswered for about 10 s. A peer that is merely slow or stopped
  // answers (its window is closed), and stays alive. Call about once a second.
  [[nodiscard]] Status check(const tcp_info& details, int64_t time_ns = now_ns());
  // The same after a time of the caller's, once data has been sent again twice. Call a few times in
  // that time.
  [[nodiscard]] Status check(const tcp_info& details,
                             std::chrono::milliseconds silence,
                             int64_t time_ns = now_ns());
  // The last check found a silence, and the next one decides.
  [[nodiscard]] bool suspects() const { return unanswered_checks_ > 0; }

 private:
  // For how long what was sent has been unanswered, at most.
  [[nodiscard]] std::chrono::milliseconds unanswered_for(const tcp_info& details, int64_t time_ns);
  [[nodiscard]] Status note(bool silent, std::chrono::milliseconds unanswered);

  uint32_t unanswered_checks_ = 0;  // in a row
  int64_t answered_at_ns_ = 0;      // the last check by which all was; 0: none
};

}  // namespace ho::tcp
