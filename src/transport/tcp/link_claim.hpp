// What the connecting rank says in the handshake of a data connection: which link it is for. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/index.hpp"
#include "base/status.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

inline constexpr const char* kHandshakePurpose = "data";
// A claim with failover has a byte for each of its two rails.
inline constexpr size_t kMaxFailoverRails = 256;

struct LinkClaim {
  GlobalRank from;
  GlobalRank to;
  RailIndex rail;
  uint16_t communicator = 0;
  uint8_t channel = 0;
  uint8_t connection = 0;
  uint8_t connection_count = 1;
  uint64_t job_id = 0;
  // With failover only. Else the connection comes over `rail`, which the claim says once.
  bool fails_over = false;
  uint32_t epoch = 0;     // of the attempt (paths.hpp)
  RailIndex from_rail{};  // over which it comes
  RailIndex to_rail{};
  uint8_t weight = 1;  // striping.hpp

  [[nodiscard]] LinkKey key_of_peer() const { return {from, rail, communicator, channel}; }
};

// Whether rank `one` is the end that opens its links to `other` on this channel.
[[nodiscard]] bool opens(GlobalRank one, GlobalRank other, uint8_t channel);

inline constexpr size_t kClaimBytes = 32;
[[nodiscard]] std::array<std::byte, kClaimBytes> encode(const LinkClaim& claim);
[[nodiscard]] Result<LinkClaim> decode_claim(std::span<const std::byte> bytes);
// Whether a link with that claim may exist on a rank with these options; the reason if not.
[[nodiscard]] Status check_claim(const LinkClaim& claim, const TcpOptions& options);

}  // namespace ho::tcp
