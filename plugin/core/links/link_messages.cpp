#include "core/links/link_messages.hpp"

#include <algorithm>
#include <string>

#include "core/builtin/records.hpp"

namespace ho::plugin {
namespace {

// At weights between 1 and 4 or so, as they are where one rail of some is slow.
constexpr uint64_t kPiecesToSpread = 16;

uint16_t short_tag(int32_t tag) {
  return static_cast<uint16_t>(static_cast<uint32_t>(tag) & 0xffffU);
}

}  // namespace

uint8_t halvings_of(uint64_t message_bytes, size_t rails) {
  uint8_t halvings = 0;
  while (rails > 1 && halvings < kMaxHalvings &&
         piece_count(message_bytes, halvings) < kPiecesToSpread) {
    ++halvings;
  }
  return halvings;
}

size_t LinkPiece::size() const {
  return static_cast<size_t>(std::min<uint64_t>(bytes - offset(), kPieceBytes >> halvings));
}

Frame frame_of(LinkMessage kind, size_t payload_bytes) {
  Frame frame;
  frame.collective = kMessage;
  frame.algorithm = static_cast<uint8_t>(kind);
  frame.payload_bytes = static_cast<uint32_t>(payload_bytes);
  return frame;
}

Frame frame_of(LinkMessage kind, const LinkPiece& piece) {
  Frame frame = frame_of(kind, kind == LinkMessage::kPiece ? piece.size() : 0);
  frame.sequence = piece.sequence;
  frame.dtype = piece.slot;
  frame.phase = piece.halvings;
  frame.digest = short_tag(piece.tag);
  frame.count = piece.bytes;
  frame.op_index = piece.number;
  return frame;
}

Result<LinkMessage> kind_of(const Frame& frame) {
  const auto malformed = [](const std::string& what) {
    return Status(StatusCode::kProtocol,
                  "the peer sent " + what + "; both ends must run one release");
  };
  const auto kind = static_cast<LinkMessage>(frame.algorithm);
  const bool known = kind >= LinkMessage::kEndpoint && kind <= LinkMessage::kLeaving;
  if (frame.collective != kMessage || !known) {
    return malformed("what is no message of a connection of NCCL's");
  }
  if (kind == LinkMessage::kPiece) {
    const LinkPiece piece = piece_of(frame);
    const bool inside = piece.bytes <= kMaxMessageBytes && piece.halvings <= kMaxHalvings &&
                        piece.number < piece_count(piece.bytes, piece.halvings) &&
                        piece.slot < kMaxReceives;
    if (!inside || frame.payload_bytes != piece.size()) {
      return malformed("a piece that does not lie in its message");
    }
  }
  const bool bare = kind == LinkMessage::kTooLong || kind == LinkMessage::kLeaving;
  if (bare && frame.payload_bytes != 0) {
    return malformed("a notice that claims to carry data");
  }
  if (kind == LinkMessage::kCredit && frame.payload_bytes > kMaxCreditBytes) {
    return malformed("a receive of more buffers than there can be");
  }
  return kind;
}

LinkPiece piece_of(const Frame& frame) {
  return {.sequence = frame.sequence,
          .slot = frame.dtype,
          .halvings = frame.phase,
          .bytes = frame.count,
          .number = frame.op_index};
}

bool tags_agree(int32_t one, const Frame& frame) {
  return short_tag(one) == frame.digest;
}

}  // namespace ho::plugin
