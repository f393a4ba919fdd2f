// File descriptors between processes of one host, over Unix sockets in the abstract name space
// (no file, gone with its process) that keep message boundaries.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

inline constexpr size_t kMaxPassedFds = 8;

// Listens at the abstract name; non-blocking.
[[nodiscard]] Result<Fd> listen_abstract(const std::string& name, int backlog);
// Connects; retries while the listener's queue is full, until the deadline (passed: tries once).
// kConnection: nobody listens under that name in this network namespace.
[[nodiscard]] Result<Fd> connect_abstract(const std::string& name, Deadline deadline);
// The next connection, non-blocking, or an invalid Fd when none waits.
[[nodiscard]] Result<Fd> accept_waiting(const Fd& listener);
// Who is at the other end, as it was when it connected, or listened.
struct ProcessCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
[[nodiscard]] Result<ProcessCredentials> peer_credentials(const Fd& connection);

// Sends one message with descriptors (at most kMaxPassedFds); they stay open here. kPeerLost: the
// other end has closed.
[[nodiscard]] Status send_with_fds(const Fd& connection,
                                   std::span<const std::byte> message,
                                   std::span<const int> fds,
                                   Deadline deadline);

struct ReceivedFds {
  size_t message_bytes = 0;  // 0: the other end closed
  std::vector<Fd> fds;
  bool fds_lost = false;  // more came than this process may open
};
// The message that waits, into `message` (a longer one is an error). Call when readable.
[[nodiscard]] Result<ReceivedFds> receive_with_fds(const Fd& connection,
                                                   std::span<std::byte> message);

}  // namespace ho
