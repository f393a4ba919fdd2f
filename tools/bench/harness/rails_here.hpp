// The rail interfaces of this process's node, read as the library reads them. Which of them it then
// uses is not asked, so that the limit against which its results are held does not depend on that.
#pragma once

#include <vector>

#include "os/socket.hpp"

namespace ho::harness {

struct RailHere {
  SocketAddress address;   // with port 0, IPv4 where there is one
  uint64_t pace_mbit = 0;  // what senders keep to; 0: as fast as it goes
};
// Each interface that is up and that HORING_SOCKET_IFNAME permits, in natural order of their names
// (rail2 before rail10); emulated rails where there are some. None where they cannot be read.
[[nodiscard]] std::vector<RailHere> rails_here();

}  // namespace ho::harness
