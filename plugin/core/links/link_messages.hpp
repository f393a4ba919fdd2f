// What the two ends of a comm tell each other over a link, as frames. The receiver announces its
// buffers (a ReceiveCredit as payload), the sender answers with pieces of messages, in order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "transport/frame.hpp"

namespace ho::plugin {

enum class LinkMessage : uint8_t {
  kEndpoint = 1,  // of the accepting end, first: its endpoint
  kCredit = 2,    // of the receiver
  kPiece = 3,     // of the sender
  kTooLong = 4,   // of the sender: a message does not fit
  kLeaving = 5,   // of either: it closes, and nothing follows
};

// A message's bytes travel in pieces of so many, halved `halvings` times; the last one has the
// rest, an empty message one piece of none.
inline constexpr size_t kPieceBytes = size_t{256} << 10U;
inline constexpr uint8_t kMaxHalvings = 6;
[[nodiscard]] constexpr uint64_t piece_count(uint64_t message_bytes, uint8_t halvings) {
  const uint64_t piece_bytes = kPieceBytes >> halvings;
  return message_bytes == 0 ? 1 : (message_bytes + piece_bytes - 1) / piece_bytes;
}
// A link over several rails spreads pieces over them: enough for each to have its part, so that a
// message arrives at once over all, and no more. Small messages too: a call waits for the slowest,
// so a slow rail may carry none of them whole.
[[nodiscard]] uint8_t halvings_of(uint64_t message_bytes, size_t rails);

struct LinkPiece {
  uint32_t sequence = 0;  // of the receive, its low 32 bits
  uint8_t slot = 0;       // in its group
  uint8_t halvings = 0;   // the same for each piece of a message
  int32_t tag = 0;        // its low 16 bits are sent
  uint64_t bytes = 0;     // of the whole message
  uint32_t number = 0;    // of the piece
  [[nodiscard]] uint64_t offset() const { return number * uint64_t{kPieceBytes >> halvings}; }
  [[nodiscard]] size_t size() const;
};

[[nodiscard]] Frame frame_of(LinkMessage kind, size_t payload_bytes);
[[nodiscard]] Frame frame_of(LinkMessage kind, const LinkPiece& piece);
// What a peer's frame is. An error: none of these, or a piece that does not lie in its message.
[[nodiscard]] Result<LinkMessage> kind_of(const Frame& frame);
[[nodiscard]] LinkPiece piece_of(const Frame& frame);
[[nodiscard]] bool tags_agree(int32_t one, const Frame& frame);

}  // namespace ho::plugin
