#include "core/builtin/records.hpp"

#include <string>

#include "core/little_endian.hpp"

namespace ho::plugin {
namespace {

constexpr uint16_t kRoomMagic = 0x5248;     // "HR"
constexpr uint16_t kSegmentMagic = 0x5348;  // "HS"
constexpr uint16_t kClaimMagic = 0x4348;    // "HC"
constexpr uint8_t kClaimVersion = 2;

Status malformed(const std::string& what) {
  return {StatusCode::kProtocol, "the peer sent " + what + "; both ends must run one release"};
}

}  // namespace

size_t encode(const RoomRecord& record, std::span<std::byte, kMostRoomBytes> bytes) {
  put_number(bytes, 0, kRoomMagic);
  put_number(bytes, 2, static_cast<uint16_t>(record.count));
  put_number(bytes, 4, record.sequence);
  size_t at = kRoomHeadBytes;
  for (uint32_t slot = 0; slot < record.count; ++slot) {
    put_number(bytes, at, record.tags.at(slot));
    put_number(bytes, at + 4, record.rooms.at(slot));
    at += kRoomSlotBytes;
  }
  return at;
}

Result<size_t> decode_room(std::span<const std::byte> bytes, RoomRecord& record) {
  if (bytes.size() < kRoomHeadBytes) {
    return size_t{0};
  }
  const uint32_t count = get_number<uint16_t>(bytes, 2);
  if (get_number<uint16_t>(bytes, 0) != kRoomMagic || count > kMostReceives) {
    return malformed("what is no record of a receive");
  }
  const size_t size = kRoomHeadBytes + count * kRoomSlotBytes;
  if (bytes.size() < size) {
    return size_t{0};
  }
  record.sequence = get_number<uint64_t>(bytes, 4);
  if (count == 0 && record.sequence != 0) {
    return malformed("a receive without places");
  }
  record.count = count;
  size_t at = kRoomHeadBytes;
  for (uint32_t slot = 0; slot < count; ++slot) {
    record.tags.at(slot) = get_number<int32_t>(bytes, at);
    record.rooms.at(slot) = get_number<uint64_t>(bytes, at + 4);
    at += kRoomSlotBytes;
  }
  return size;
}

SegmentBytes encode(const NetSegment& segment) {
  SegmentBytes bytes{};
  put_number(std::span(bytes), 0, kSegmentMagic);
  put_number(std::span(bytes), 2, static_cast<uint8_t>(segment.kind));
  put_number(std::span(bytes), 3, static_cast<uint8_t>(segment.slot));
  put_number(std::span(bytes), 4, segment.tag);
  put_number(std::span(bytes), 8, segment.sequence);
  put_number(std::span(bytes), 16, segment.bytes);
  put_number(std::span(bytes), 24, segment.offset);
  put_number(std::span(bytes), 32, segment.length);
  return bytes;
}

Result<NetSegment> decode_segment(std::span<const std::byte> bytes) {
  if (bytes.size() != kSegmentBytes || get_number<uint16_t>(bytes, 0) != kSegmentMagic) {
    return malformed("what is no segment of a message");
  }
  const auto kind = get_number<uint8_t>(bytes, 2);
  if (kind != static_cast<uint8_t>(NetSegment::Kind::kPiece) &&
      kind != static_cast<uint8_t>(NetSegment::Kind::kTooLong) &&
      kind != static_cast<uint8_t>(NetSegment::Kind::kLeaving)) {
    return malformed("a segment of an unknown kind");
  }
  NetSegment segment;
  segment.kind = static_cast<NetSegment::Kind>(kind);
  segment.slot = get_number<uint8_t>(bytes, 3);
  segment.tag = get_number<int32_t>(bytes, 4);
  segment.sequence = get_number<uint64_t>(bytes, 8);
  segment.bytes = get_number<uint64_t>(bytes, 16);
  segment.offset = get_number<uint64_t>(bytes, 24);
  segment.length = get_number<uint64_t>(bytes, 32);
  if (segment.kind != NetSegment::Kind::kPiece) {
    if (segment.offset != 0 || segment.length != 0) {
      return malformed("a notice that claims to carry data");
    }
    return segment;
  }
  const bool inside = segment.bytes <= kMostMessageBytes && segment.offset <= segment.bytes &&
                      segment.length <= segment.bytes - segment.offset;
  // Only a message of no bytes has a segment of none: others could keep the receiver busy for ever.
  if (!inside || segment.slot >= kMostReceives || (segment.length == 0 && segment.bytes != 0)) {
    return malformed("a segment that does not lie in its message");
  }
  return segment;
}

std::array<std::byte, kStreamClaimBytes> encode(const StreamClaim& claim) {
  std::array<std::byte, kStreamClaimBytes> bytes{};
  put_number(std::span(bytes), 0, kClaimMagic);
  put_number(std::span(bytes), 2, kClaimVersion);
  put_number(std::span(bytes), 4, static_cast<uint8_t>(claim.stream));
  put_number(std::span(bytes), 5, static_cast<uint8_t>(claim.stream_count));
  put_number(std::span(bytes), 8, claim.listener_id);
  put_number(std::span(bytes), 16, claim.connection_id);
  return bytes;
}

Result<StreamClaim> decode_stream_claim(std::span<const std::byte> bytes) {
  if (bytes.size() != kStreamClaimBytes || get_number<uint16_t>(bytes, 0) != kClaimMagic ||
      get_number<uint8_t>(bytes, 2) != kClaimVersion) {
    return malformed("a claim that is none of this network's");
  }
  StreamClaim claim;
  claim.stream = get_number<uint8_t>(bytes, 4);
  claim.stream_count = get_number<uint8_t>(bytes, 5);
  claim.listener_id = get_number<uint64_t>(bytes, 8);
  claim.connection_id = get_number<uint64_t>(bytes, 16);
  if (claim.stream_count == 0 || claim.stream_count > kMostStreams ||
      claim.stream >= claim.stream_count) {
    return malformed("a claim of stream " + std::to_string(claim.stream) + " of " +
                     std::to_string(claim.stream_count));
  }
  return claim;
}

}  // namespace ho::plugin
