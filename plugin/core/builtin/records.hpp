// What the two ends of a comm say to each other. The receiver speaks first: a receive credit for
// each grouped receive, on the first connection. The sender answers with segments: a header and a
// piece of one message, on any of the connections. A message is thus never on its way before its
// place in the receiver's memory is known, so nothing is ever stashed and no order of tags can
// block another.
//
// An end that closes says so first, on the first connection: a receiver with a receive credit of no
// buffers, a sender with a segment kLeaving. A connection that ends without it is that of a process
// that was killed or has given up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace ho::plugin {

inline constexpr uint32_t kMaxReceives = 8;      // of one group
inline constexpr size_t kMaxRequests = 32;       // of one comm
inline constexpr uint32_t kMaxConnections = 16;  // of one comm
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40U;

// A group of receives, told apart by their tags.
struct ReceiveCredit {
  uint64_t sequence = 0;  // 1, 2, 3, ...; 0 where there are no buffers
  uint32_t count = 0;     // 1 .. kMaxReceives; 0: the receiver closes, and nothing follows
  std::array<int32_t, kMaxReceives> tags{};
  std::array<uint64_t, kMaxReceives> capacities{};  // most bytes that the message may have
};
inline constexpr size_t kCreditHeadBytes = 12;
inline constexpr size_t kCreditSlotBytes = 12;
inline constexpr size_t kMaxCreditBytes = kCreditHeadBytes + kMaxReceives * kCreditSlotBytes;

// Returns the record's size.
size_t encode(const ReceiveCredit& record, std::span<std::byte, kMaxCreditBytes> bytes);
// The record at the head of `bytes`: its size, or 0 when more bytes are needed.
[[nodiscard]] Result<size_t> decode_credit(std::span<const std::byte> bytes, ReceiveCredit& record);

struct NetSegment {
  enum class Kind : uint8_t {
    kPiece = 1,    // `length` bytes of the message from `offset` follow
    kTooLong = 2,  // the message has more bytes than there is room; nothing follows
    kLeaving = 3,  // the sender closes; nothing follows
  };
  Kind kind = Kind::kPiece;
  uint32_t slot = 0;      // in its group
  int32_t tag = 0;        // of the slot
  uint64_t sequence = 0;  // of the group
  uint64_t bytes = 0;     // of the whole message
  uint64_t offset = 0;
  uint64_t length = 0;
};
inline constexpr size_t kSegmentBytes = 40;
using SegmentBytes = std::array<std::byte, kSegmentBytes>;

// Room for what either end says when it closes.
using LeavingBytes = SegmentBytes;

[[nodiscard]] SegmentBytes encode(const NetSegment& segment);
// Its piece lies inside its message, which has at most kMaxMessageBytes.
[[nodiscard]] Result<NetSegment> decode_segment(std::span<const std::byte> bytes);

// By which the connecting end says what a connection is for.
struct ConnectionClaim {
  uint64_t listener_id = 0;
  uint64_t connection_id = 0;  // equal for the connections of one comm
  uint32_t connection = 0;
  uint32_t connection_count = 1;  // 1 .. kMaxConnections
  std::string who = {};           // process_text() of the connecting end
};
inline constexpr size_t kMaxClaimWhoBytes = 160;
[[nodiscard]] std::vector<std::byte> encode(const ConnectionClaim& claim);
[[nodiscard]] Result<ConnectionClaim> decode_connection_claim(std::span<const std::byte> bytes);

}  // namespace ho::plugin
