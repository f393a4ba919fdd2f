#include "core/builtin/records.hpp"

#include <string>

#include "auth/printable.hpp"
#include "base/bytes.hpp"

namespace ho::plugin {
namespace {

constexpr uint16_t kCreditMagic = 0x5248;   // "HR"
constexpr uint16_t kSegmentMagic = 0x5348;  // "HS"
constexpr uint16_t kClaimMagic = 0x4348;    // "HC"
constexpr uint8_t kClaimVersion = 3;

Status malformed(const std::string& what) {
  return {StatusCode::kProtocol, "the peer sent " + what + "; both ends must run one release"};
}

}  // namespace

size_t encode(const ReceiveCredit& record, std::span<std::byte, kMaxCreditBytes> bytes) {
  store_le(bytes, 0, kCreditMagic);
  store_le(bytes, 2, static_cast<uint16_t>(record.count));
  store_le(bytes, 4, record.sequence);
  size_t at = kCreditHeadBytes;
  for (uint32_t slot = 0; slot < record.count; ++slot) {
    store_le(bytes, at, record.tags.at(slot));
    store_le(bytes, at + 4, record.capacities.at(slot));
    at += kCreditSlotBytes;
  }
  return at;
}

Result<size_t> decode_credit(std::span<const std::byte> bytes, ReceiveCredit& record) {
  if (bytes.size() < kCreditHeadBytes) {
    return size_t{0};
  }
  const uint32_t count = load_le<uint16_t>(bytes, 2);
  if (load_le<uint16_t>(bytes, 0) != kCreditMagic || count > kMaxReceives) {
    return malformed("what is no record of a receive");
  }
  const size_t size = kCreditHeadBytes + count * kCreditSlotBytes;
  if (bytes.size() < size) {
    return size_t{0};
  }
  record.sequence = load_le<uint64_t>(bytes, 4);
  if (count == 0 && record.sequence != 0) {
    return malformed("a receive without buffers");
  }
  record.count = count;
  size_t at = kCreditHeadBytes;
  for (uint32_t slot = 0; slot < count; ++slot) {
    record.tags.at(slot) = load_le<int32_t>(bytes, at);
    record.capacities.at(slot) = load_le<uint64_t>(bytes, at + 4);
    at += kCreditSlotBytes;
  }
  return size;
}

SegmentBytes encode(const NetSegment& segment) {
  SegmentBytes bytes{};
  store_le(std::span(bytes), 0, kSegmentMagic);
  store_le(std::span(bytes), 2, static_cast<uint8_t>(segment.kind));
  store_le(std::span(bytes), 3, static_cast<uint8_t>(segment.slot));
  store_le(std::span(bytes), 4, segment.tag);
  store_le(std::span(bytes), 8, segment.sequence);
  store_le(std::span(bytes), 16, segment.bytes);
  store_le(std::span(bytes), 24, segment.offset);
  store_le(std::span(bytes), 32, segment.length);
  return bytes;
}

Result<NetSegment> decode_segment(std::span<const std::byte> bytes) {
  if (bytes.size() != kSegmentBytes || load_le<uint16_t>(bytes, 0) != kSegmentMagic) {
    return malformed("what is no segment of a message");
  }
  const auto kind = load_le<uint8_t>(bytes, 2);
  if (kind != static_cast<uint8_t>(NetSegment::Kind::kPiece) &&
      kind != static_cast<uint8_t>(NetSegment::Kind::kTooLong) &&
      kind != static_cast<uint8_t>(NetSegment::Kind::kLeaving)) {
    return malformed("a segment of an unknown kind");
  }
  NetSegment segment;
  segment.kind = static_cast<NetSegment::Kind>(kind);
  segment.slot = load_le<uint8_t>(bytes, 3);
  segment.tag = load_le<int32_t>(bytes, 4);
  segment.sequence = load_le<uint64_t>(bytes, 8);
  segment.bytes = load_le<uint64_t>(bytes, 16);
  segment.offset = load_le<uint64_t>(bytes, 24);
  segment.length = load_le<uint64_t>(bytes, 32);
  if (segment.kind != NetSegment::Kind::kPiece) {
    if (segment.offset != 0 || segment.length != 0) {
      return malformed("a notice that claims to carry data");
    }
    return segment;
  }
  const bool inside = segment.bytes <= kMaxMessageBytes && segment.offset <= segment.bytes &&
                      segment.length <= segment.bytes - segment.offset;
  // Only a message of no bytes has a segment of none: others could keep the receiver busy for ever.
  if (!inside || segment.slot >= kMaxReceives || (segment.length == 0 && segment.bytes != 0)) {
    return malformed("a segment that does not lie in its message");
  }
  return segment;
}

std::vector<std::byte> encode(const ConnectionClaim& claim) {
  ByteWriter writer;
  writer.number(kClaimMagic, 2);
  writer.number(kClaimVersion, 1);
  writer.number(claim.connection, 1);
  writer.number(claim.connection_count, 1);
  writer.number(claim.listener_id, 8);
  writer.number(claim.connection_id, 8);
  writer.text(claim.who, kMaxClaimWhoBytes, 1);
  return writer.take();
}

Result<ConnectionClaim> decode_connection_claim(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const bool ours = reader.number<uint16_t>() == kClaimMagic;
  const bool same_version = reader.number<uint8_t>() == kClaimVersion;
  ConnectionClaim claim;
  claim.connection = reader.number<uint8_t>();
  claim.connection_count = reader.number<uint8_t>();
  claim.listener_id = reader.number<uint64_t>();
  claim.connection_id = reader.number<uint64_t>();
  const std::string_view who = as_text(reader.blob(kMaxClaimWhoBytes, 1));
  claim.who = printable(who, who.size());
  reader.finish();
  if (!ours || !same_version || !reader.ok()) {
    return malformed("a claim that is none of this network's");
  }
  if (claim.connection_count == 0 || claim.connection_count > kMaxConnections ||
      claim.connection >= claim.connection_count) {
    return malformed("a claim of connection " + std::to_string(claim.connection) + " of " +
                     std::to_string(claim.connection_count));
  }
  return claim;
}

}  // namespace ho::plugin
