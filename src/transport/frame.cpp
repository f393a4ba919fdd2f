#include "transport/frame.hpp"

#include "base/bytes.hpp"
#include "base/dtype.hpp"

namespace ho {
namespace {

constexpr uint8_t kMagic = 0xA7;
constexpr uint8_t kReduceScatter = 1;
constexpr uint8_t kAllReduce = 2;
constexpr uint8_t kBroadcast = 3;
constexpr uint8_t kGather = 5;
constexpr uint8_t kScatter = 6;
constexpr uint8_t kReduce = 7;

bool rooted(uint8_t collective) {
  return collective == kBroadcast || collective == kGather || collective == kScatter ||
         collective == kReduce;
}

std::string collective_text(uint8_t collective) {
  switch (collective) {
    case 0:
      return "all_gather";
    case kReduceScatter:
      return "reduce_scatter";
    case kAllReduce:
      return "all_reduce";
    case kBroadcast:
      return "broadcast";
    case 4:
      return "all_to_all";
    case kGather:
      return "gather";
    case kScatter:
      return "scatter";
    case kReduce:
      return "reduce";
    case kAllToAllCounts:
      return "all_to_all_counts";
    default:
      return "operation type " + std::to_string(collective);
  }
}

std::string dtype_name(uint8_t dtype) {
  return dtype < kDTypeCount ? std::string(to_string(static_cast<DType>(dtype)))
                             : "dtype " + std::to_string(dtype);
}

// As horing.h numbers them; the plan folder is not this one's to know.
std::string algorithm_name(uint8_t algorithm) {
  constexpr std::array<const char*, 5> kNames{
      "ring", "multi_ring", "hierarchical", "ho_ring", "direct"};
  return algorithm < kNames.size() ? kNames.at(algorithm) : std::to_string(algorithm);
}

std::string call_text(const Frame& frame) {
  std::string text = collective_text(frame.collective) + " #" + std::to_string(frame.sequence);
  if (frame.collective == kAllToAllCounts) {  // the ranks' counts and types are compared by itself
    return text;
  }
  text += " of " + std::to_string(frame.count) + " " + dtype_name(frame.dtype);
  const bool sums = frame.collective == kReduceScatter || frame.collective == kAllReduce ||
                    frame.collective == kReduce;
  if (sums && frame.op < kReduceOpCount) {
    text += " " + std::string(to_string(static_cast<ReduceOp>(frame.op)));
  }
  return text;
}

std::string different_flags(const Frame& expected, const Frame& got) {
  const uint8_t differ = expected.flags ^ got.flags;
  const bool sums = (differ & kFp32Sums) != 0;
  const bool peer_has = (got.flags & differ & (sums ? kFp32Sums : kLabelled)) != 0;
  return std::string(sums ? ": fp32_sums is " : ": a label is ") +
         (peer_has ? "set on the peer, not on this rank" : "set on this rank, not on the peer");
}

std::string different_digest(const Frame& expected, const Frame& got) {
  if ((expected.flags & kLabelled) != 0) {
    const char* root = rooted(expected.collective) ? " or root" : "";
    return std::string(": peer passed another label") + root +
           ", or other counts per rank: it is for something else there";
  }
  if (rooted(expected.collective)) {
    return ": peer passed root " + std::to_string(got.digest) + ", this rank root " +
           std::to_string(expected.digest);
  }
  return ": peer passed other counts per rank, though their sum is the same";
}

}  // namespace

FrameBytes encode(const Frame& frame) {
  FrameBytes bytes{};
  store_le(bytes, 0, kMagic);
  store_le(bytes, 1, static_cast<uint8_t>(frame.type));
  store_le(bytes, 2, frame.collective);
  store_le(bytes, 3, frame.algorithm);
  store_le(bytes, 4, frame.dtype);
  store_le(bytes, 5, frame.op);
  store_le(bytes, 6, frame.phase);
  store_le(bytes, 7, frame.flags);
  store_le(bytes, 8, frame.communicator);
  store_le(bytes, 10, frame.digest);
  store_le(bytes, 12, frame.sequence);
  store_le(bytes, 16, frame.op_index);
  store_le(bytes, 20, frame.payload_bytes);
  store_le(bytes, 24, frame.count);
  return bytes;
}

Result<Frame> decode(std::span<const std::byte, kFrameBytes> bytes) {
  const auto bad = [](std::string text) {
    return Status(StatusCode::kProtocol, "message header: " + std::move(text));
  };
  if (load_le<uint8_t>(bytes, 0) != kMagic) {
    return bad("does not start with the magic number; the peer is not HO-Ring or lost its place");
  }
  const auto type = load_le<uint8_t>(bytes, 1);
  if (type < static_cast<uint8_t>(Frame::Type::kData) ||
      type > static_cast<uint8_t>(Frame::Type::kCount)) {
    return bad("unknown type " + std::to_string(type));
  }
  if (load_le<uint8_t>(bytes, 7) > (kFp32Sums | kLabelled)) {
    return bad("unknown flags");
  }
  Frame frame;
  frame.type = static_cast<Frame::Type>(type);
  frame.collective = load_le<uint8_t>(bytes, 2);
  frame.algorithm = load_le<uint8_t>(bytes, 3);
  frame.dtype = load_le<uint8_t>(bytes, 4);
  frame.op = load_le<uint8_t>(bytes, 5);
  frame.phase = load_le<uint8_t>(bytes, 6);
  frame.flags = load_le<uint8_t>(bytes, 7);
  frame.communicator = load_le<uint16_t>(bytes, 8);
  frame.digest = load_le<uint16_t>(bytes, 10);
  frame.sequence = load_le<uint32_t>(bytes, 12);
  frame.op_index = load_le<uint32_t>(bytes, 16);
  frame.payload_bytes = load_le<uint32_t>(bytes, 20);
  frame.count = load_le<uint64_t>(bytes, 24);
  if (frame.payload_bytes > kMaxPayloadBytes) {
    return bad("payload of " + std::to_string(frame.payload_bytes) + " bytes; at most " +
               std::to_string(kMaxPayloadBytes) + " are possible");
  }
  return frame;
}

Status check_expected(const Frame& expected, const Frame& got) {
  if (expected == got) {
    return {};
  }
  const auto mismatch = [](std::string text) {
    return Status(StatusCode::kMismatch, std::move(text));
  };
  if (expected.communicator != got.communicator) {
    return mismatch("peer sends for communicator " + std::to_string(got.communicator) +
                    ", this rank expects communicator " + std::to_string(expected.communicator));
  }
  const std::string peer_call = call_text(got);
  const std::string own_call = call_text(expected);
  if (peer_call != own_call) {
    return mismatch("peer called " + peer_call + ", this rank " + own_call +
                    "; all ranks must make the same calls in the same order");
  }
  if (expected.flags != got.flags) {
    return mismatch(own_call + different_flags(expected, got) +
                    "; pass the same call options on all ranks");
  }
  if (expected.digest != got.digest) {
    return mismatch(own_call + different_digest(expected, got) + "; pass the same on all ranks");
  }
  if (expected.algorithm != got.algorithm) {
    return mismatch(own_call + ": peer uses algorithm " + algorithm_name(got.algorithm) +
                    ", this rank " + algorithm_name(expected.algorithm) +
                    "; set the same algorithm on all ranks");
  }
  return mismatch(own_call + ": peer sent message " + std::to_string(got.op_index) + " of phase " +
                  std::to_string(got.phase) + " with " + std::to_string(got.payload_bytes) +
                  " bytes, this rank expects message " + std::to_string(expected.op_index) +
                  " of phase " + std::to_string(expected.phase) + " with " +
                  std::to_string(expected.payload_bytes) +
                  " bytes; the ranks' counts or settings differ");
}

Status check_same_call(const Frame& own, Frame peer) {
  peer.phase = own.phase;
  peer.op_index = own.op_index;
  peer.payload_bytes = own.payload_bytes;
  return check_expected(own, peer);
}

}  // namespace ho
