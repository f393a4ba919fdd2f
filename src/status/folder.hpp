// Where the processes of a user's jobs on this host can be asked: a folder that nobody else can
// enter, with a socket for each rank of each job. Jobs and `horing status` find it the same way.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ho {

// HORING_STATUS_DIR alone where that is set ("none": none); else, the first one first: a folder of
// XDG_RUNTIME_DIR, of the user's runtime folder as logins have it, of /tmp.
[[nodiscard]] std::vector<std::string> status_folders();
// Not ok: it is no folder of this user's own that is closed to all others, and what it is instead.
// kSystem: it is not there or cannot be looked at.
[[nodiscard]] Status check_status_folder(const std::string& path);
// The first that is there and closed, or can be made so.
[[nodiscard]] Result<std::string> make_status_folder(const std::vector<std::string>& folders);

// A question to such a socket: one line of these. It is answered with JSON and the end of the
// connection: with a report (report.hpp), or with the file that was written or why none was. What
// the other ranks of the job do is answered with a line of each (others.hpp).
inline constexpr std::string_view kAskStatus = "horing 1 status";
inline constexpr std::string_view kAskOthers = "horing 1 others";
inline constexpr std::string_view kAskRecord = "horing 1 record";

// The running kernel of this host, by the beginning of its boot id. A folder may be one of a
// network that other hosts have too: their sockets cannot be connected to from here, whoever
// listens.
[[nodiscard]] uint32_t status_host();

// The name of a rank's socket.
struct StatusSocketName {
  uint64_t job = 0;
  uint32_t rank = 0;
  pid_t pid = 0;  // as its own process has it
  uint32_t host = 0;
  friend bool operator==(const StatusSocketName&, const StatusSocketName&) = default;
};
[[nodiscard]] std::string to_string(const StatusSocketName& name);
// Nothing: no socket of ours is called so.
[[nodiscard]] std::optional<StatusSocketName> parse_status_socket_name(std::string_view text);
// "00c0ffee12345678", as jobs are named everywhere.
[[nodiscard]] std::string job_name(uint64_t job);

}  // namespace ho
