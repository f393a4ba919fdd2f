// A handshake's bytes on a socket, for both ends. Never blocks.
#pragma once

#include <cstdint>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "connect/socket.hpp"

namespace ho {

enum class HandshakeState : uint8_t {
  kPending,
  kAnswered,  // client that only asks: the server has answered, nothing is proved to it
  kDecide,    // server: the client has proved the key; accept() or refuse() its claim
  kDone,
  kLost,  // the connection went away in the middle; trying again may help
};
// Moves bytes both ways as far as the socket lets it. Never reads past the handshake. An error is
// the handshake's decision: trying again cannot help.
[[nodiscard]] Result<HandshakeState> advance_handshake(Socket& socket,
                                                       Handshake& handshake,
                                                       bool only_asks = false);
// Sends what is left of a refusal, best effort.
void flush_refusal(Socket& socket, Handshake& handshake);

}  // namespace ho
