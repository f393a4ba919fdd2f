// Whether somebody still listens where a peer is expected to: for a link that waits for the peer to
// connect, where nobody would say that its process has ended.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "connect/rail_interface.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"

namespace ho::tcp {

// Connects, sends nothing, and closes: to a living peer no more than a look at its port. One that
// is busy elsewhere finds every such connection in its backlog, so they become ever more seldom.
class PortWatch {
 public:
  // Call about once a second while the peer is waited for. kPeerLost: nobody listens there;
  // kConnection: the host could not be reached, three times in a row.
  [[nodiscard]] Status check(const RailInterface& from, const SocketAddress& to);
  // It is not waited for now.
  void pause() { *this = PortWatch(); }

 private:
  [[nodiscard]] Status judge(int error, const SocketAddress& to);

  Fd connecting_;
  uint32_t pause_checks_ = 1;  // between two connections
  uint32_t checks_left_ = 0;   // until the next one
  uint32_t unreached_ = 0;     // in a row
};

}  // namespace ho::tcp
