// How a data connection begins: the handshake of src/auth over a socket, and the claim in it, by
// which the connecting rank says which link the connection is for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "auth/job_key.hpp"
#include "base/index.hpp"
#include "base/status.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

struct LinkClaim {
  GlobalRank from;
  GlobalRank to;
  RailIndex rail;
  uint16_t communicator = 0;
  uint8_t channel = 0;
  uint8_t stream = 0;
  uint8_t stream_count = 1;
  uint64_t job_id = 0;

  [[nodiscard]] LinkKey key_of_peer() const { return {from, rail, communicator, channel}; }
};

inline constexpr size_t kClaimBytes = 32;
[[nodiscard]] std::array<std::byte, kClaimBytes> encode(const LinkClaim& claim);
[[nodiscard]] Result<LinkClaim> decode_claim(std::span<const std::byte> bytes);
// Whether a link with that claim may exist on a rank with these options; the reason if not.
[[nodiscard]] Status check_claim(const LinkClaim& claim, const TcpOptions& options);

enum class HandshakeState : uint8_t {
  kPending,
  kDecide,  // server: the client has proved the key; accept() or refuse() its claim
  kDone,
  kLost,  // the connection went away in the middle; trying again may help
};
// Moves bytes both ways as far as the socket lets it. Never reads past the handshake. An error is
// the handshake's decision: trying again cannot help.
[[nodiscard]] Result<HandshakeState> advance_handshake(Socket& socket, Handshake& handshake);
// Sends what is left of a refusal, best effort.
void flush_refusal(Socket& socket, Handshake& handshake);

}  // namespace ho::tcp
