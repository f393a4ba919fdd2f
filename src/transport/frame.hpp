// What precedes every message between two ranks, on every transport. It carries enough for the
// receiver to see that both ranks are in the same place of the same operation, and to report what
// differs when they are not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"

namespace ho {

struct Frame {
  enum class Type : uint8_t {
    kData = 1,
    kCloseRequest = 2,
    kCloseAccept = 3,
    kCloseRefuse = 4,
    kCloseHint = 5,
    kSwitch = 6,  // these two: tcp/resume.hpp
    kCount = 7,
  };
  Type type = Type::kData;
  uint8_t collective = 0;  // plan Collective, kAllToAllCounts, or kMessage
  uint8_t algorithm = 0;
  uint8_t dtype = 0;
  uint8_t op = 0;  // ReduceOp
  uint8_t phase = 0;
  uint8_t flags = 0;          // kFp32Sums, kLabelled
  uint16_t communicator = 0;  // id of the (split) communicator
  // What else all ranks must pass equally: the root, or of counts per rank; with kLabelled of these
  // and the label.
  uint16_t digest = 0;
  uint32_t sequence = 0;  // the operation's number in its channel, from 1
  uint32_t op_index = 0;  // link-local: the k-th message of this operation on this link
  uint32_t payload_bytes = 0;
  uint64_t count = 0;  // elements of the whole operation, as the sender was called
  friend bool operator==(const Frame&, const Frame&) = default;
};

inline constexpr uint8_t kFp32Sums = 1;
inline constexpr uint8_t kLabelled = 2;
// An all-to-all with counts per rank, which first gathers the counts.
inline constexpr uint8_t kAllToAllCounts = 8;
// Point to point: on links that carry nothing else (exec/message_peer.hpp).
inline constexpr uint8_t kMessage = 0xff;
inline constexpr size_t kFrameBytes = 32;
inline constexpr uint32_t kMaxPayloadBytes = 1U << 26;

using FrameBytes = std::array<std::byte, kFrameBytes>;

// Little endian, fixed offsets, first byte a magic number.
[[nodiscard]] FrameBytes encode(const Frame& frame);
// Checks magic, type and payload bound. Never reads past 32 bytes.
[[nodiscard]] Result<Frame> decode(std::span<const std::byte, kFrameBytes> bytes);
// Ok when `got` is what the receiver expected; else a kMismatch that names every field that
// differs in the caller's terms ("peer is in reduce_scatter #12 with 64 float32, this rank in
// all_gather #12 with 32 float32").
[[nodiscard]] Status check_expected(const Frame& expected, const Frame& got);
// The same of two ranks' calls, whatever message of them each is at.
[[nodiscard]] Status check_same_call(const Frame& own, Frame peer);

}  // namespace ho
