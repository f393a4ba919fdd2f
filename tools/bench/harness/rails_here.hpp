// The rail interfaces of this process's node, read as the library reads them. Which of them it then
// uses is not asked, so that the limit against which its results are held does not depend on that.
#pragma once

#include <vector>

#include "os/socket.hpp"

namespace ho::harness {

// An address with port 0 of each interface that is up and that HORING_SOCKET_IFNAME permits, IPv4
// where there is one, in natural order of their names (rail2 before rail10); those of
// HORING_EMULATED_RAILS where that is set. None where they cannot be read.
[[nodiscard]] std::vector<SocketAddress> rails_here();

}  // namespace ho::harness
