// The header of every active message: the frame, which link it is on and where in it, what the
// sender has consumed of the other direction, and the proof that the sender may use that link.
//
// UCX delivers bytes from anyone who can reach the worker, so each message carries a token. It is a
// hash under the job key over the link and over two random numbers: both ends drew one for this
// transport and sent it over the authenticated control plane. A message with another token is
// dropped before anything in it is used. The token does not hide or protect the payload: anyone who
// can read the network can copy it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "auth/job_key.hpp"
#include "transport/frame.hpp"
#include "transport/transport.hpp"

namespace ho::ucx {

inline constexpr size_t kTokenBytes = 16;
inline constexpr size_t kNonceBytes = 16;
inline constexpr size_t kEnvelopeBytes = 72;

using Token = std::array<std::byte, kTokenBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;
using EnvelopeBytes = std::array<std::byte, kEnvelopeBytes>;

struct Envelope {
  enum class Kind : uint8_t { kMessage = 0, kCredit = 1 };
  Kind kind = Kind::kMessage;
  FrameBytes frame{};
  Token token{};
  uint32_t index = 0;     // the message's place in its direction of the link
  uint32_t consumed = 0;  // messages of the other direction that need no room any more
  GlobalRank from;
  RailIndex rail;
  uint16_t communicator = 0;
  uint8_t channel = 0;

  [[nodiscard]] LinkKey key_of_peer() const { return {from, rail, communicator, channel}; }
};

[[nodiscard]] EnvelopeBytes encode(const Envelope& envelope);
// Checks size and kind only; the frame is decoded when it is the link's turn.
[[nodiscard]] Result<Envelope> decode_envelope(std::span<const std::byte> bytes);

// The token of messages on the link `key` of `to`, sent by key.peer.
struct TokenScope {
  uint64_t job_id = 0;
  GlobalRank to;
  Nonce sender_nonce{};
  Nonce receiver_nonce{};
};
[[nodiscard]] Token token_for(const JobKey& job_key, const LinkKey& key, const TokenScope& scope);

}  // namespace ho::ucx
