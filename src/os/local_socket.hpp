// Byte streams between processes of one host over Unix sockets that are files. Non-blocking and
// close-on-exec. Who is at the other end: peer_credentials() in fd_passing.hpp.
#pragma once

#include <string>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

// Listens there. The file appears only when that is so: what connects to a name is refused only
// where the process that listened has ended.
[[nodiscard]] Result<Fd> listen_local(const std::string& path, int backlog);
// kConnection: nobody listens there any more. kTimeout: as many connections wait there as may.
[[nodiscard]] Result<Fd> connect_local(const std::string& path);

}  // namespace ho
