// Whether the peer's kernel still answers what is sent to it, told from what this host's kernel
// knows of the connection (tcp_info). What decides is pure; only look_at_connection asks the
// kernel.
#pragma once

#include <netinet/tcp.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.hpp"

namespace ho::tcp {

// Nothing where the kernel does not tell.
using LookAtConnection = std::function<std::optional<tcp_info>(int fd)>;
[[nodiscard]] std::optional<tcp_info> look_at_connection(int fd);

// Whether data or probes have been sent again and again without an answer, so far.
[[nodiscard]] bool unanswered(const tcp_info& details);

// Follows one connection.
class AnswerWatch {
 public:
  // An error once data has been unanswered for about 10 s. A peer that is merely slow or stopped
  // answers (its window is closed), and stays alive. Call about once a second.
  [[nodiscard]] Status check(const tcp_info& details);

 private:
  uint32_t unanswered_checks_ = 0;  // in a row
};

}  // namespace ho::tcp
