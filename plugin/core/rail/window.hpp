// What one call of NCCL's moves around a rail's ring, and in which order.
//
// The members of a rail form a ring; member r owns block r of an operation's data. A block travels
// around in two ways: a reduction of block r begins at member r + 1, takes up each member's
// contribution and ends at r; a broadcast of block r begins at r and ends at r - 1. An all-gather
// is one broadcast per block, a reduce-scatter one reduction per block, an all-reduce both. NCCL's
// windows usually lie in one member's block, so that there is one of them only; a window over all
// blocks gives as many as there are members, which is the ring all-gather (reduce-scatter) that
// keeps every link busy.
//
// A reduction or broadcast is cut into pieces, small ones where it is short or alone, and a member
// passes on a piece as soon as it has it. Those of one kind whose owners are equal modulo
// kOwnerFlows share a flow, a connection of its own between neighbours. On a flow all messages go
// in one order, that of their Position, on every link. So no headers are needed, and every receive
// has its memory beforehand. And the first message of all that are missing can always move, however
// the flows are interleaved. Owners with flows of their own do not wait for each other.
//
// An all-reduce of two members whose window is small is an exchange instead: each sends its whole
// contribution to the other and reduces what it gets. That is one reduction of the whole window per
// owner and no broadcast: the same bytes on each link, in one message and one latency rather than
// two; what it costs is a reduction of twice the bytes on each member, so large windows do not.
//
// Bytes per link: for N members and S bytes per block (N - 1) S for a full all-gather or
// reduce-scatter, twice that for an all-reduce; a window in one block crosses N - 1 of N links.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

namespace ho::plugin::rail {

inline constexpr uint32_t kOwnerFlows = 4;

// What each member passes on at once: small enough that a block of some 100 KiB fills a ring, large
// enough that a message's system calls are few beside its bytes (docs/results/plugin-network.md).
inline constexpr uint64_t kMinPieceBytes = 32768;
inline constexpr uint64_t kMaxPieceBytes = 131072;

// Of two members' all-reduces, windows up to this are exchanged. With four channels NCCL's windows
// are that large for all-reduces up to 256 MiB; windows of 1 MiB gained nothing
// (docs/results/plugin-processors.md).
inline constexpr uint64_t kMaxExchangeBytes = 524288;

enum class FlowKind : uint8_t { kReduction, kBroadcast };
enum class WindowKind : uint8_t { kAllReduce, kAllGather, kReduceScatter };

struct Segment {
  uint64_t offset = 0;  // from the start of the window
  uint64_t byte_count = 0;
};

// Part of a rail's data: byte_count bytes from `offset` on of `members` blocks of block_bytes each.
struct Window {
  WindowKind kind = WindowKind::kAllReduce;
  uint32_t members = 1;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  uint64_t block_bytes = 0;
  uint64_t element_bytes = 1;

  // An all-reduce has no blocks: its elements are dealt to the members as evenly as can be.
  [[nodiscard]] static Window all_reduce(uint32_t members, uint64_t count, uint64_t element_bytes);
  [[nodiscard]] bool has(FlowKind flow) const;
  // Each of two members sends all of it to the other. All members know what this depends on.
  [[nodiscard]] bool exchanges() const {
    return kind == WindowKind::kAllReduce && members == 2 && byte_count <= kMaxExchangeBytes;
  }
  // What of an owner's block lies in the window; of an exchange all of it, for both.
  [[nodiscard]] Segment segment(uint32_t owner) const;
};

// `wanted` where it is not 0 (HORING_PIECE_BYTES). Else all blocks of a window have at least as
// many pieces together as there are members, so that all links can be busy at once. Each block has
// at least two where it is longer than two of kMinPieceBytes; fewer where pieces would be smaller
// than kMinPieceBytes. An exchange has pieces of kMaxPieceBytes.
[[nodiscard]] uint64_t piece_bytes_of(const Window& window, uint64_t flow_bytes, uint64_t wanted);

// How many such pieces a block has; the last may be shorter.
[[nodiscard]] uint64_t piece_count(const Window& window, uint64_t flow_bytes, uint64_t wanted);

// Where a message is in a flow's order.
struct Position {
  uint64_t operation = 0;  // the rail's operations are numbered from 0
  uint32_t owner = 0;
  uint64_t piece = 0;
  friend bool operator==(const Position&, const Position&) = default;
  friend bool operator<(const Position& a, const Position& b) {
    return std::tie(a.operation, a.owner, a.piece) < std::tie(b.operation, b.owner, b.piece);
  }
};

struct Message {
  Position position;
  Segment bytes;     // in the window
  uint32_t hop = 0;  // links between the block's first member and this one
};

// The windows of the operations that this member has entered and not completed.
class EnteredWindows {
 public:
  EnteredWindows() = default;
  EnteredWindows(const EnteredWindows&) = delete;
  EnteredWindows& operator=(const EnteredWindows&) = delete;
  virtual ~EnteredWindows() = default;
  // window() takes [first, end); what is before is complete.
  [[nodiscard]] virtual uint64_t first() const = 0;
  [[nodiscard]] virtual uint64_t end() const = 0;
  [[nodiscard]] virtual const Window& window(uint64_t operation) const = 0;
};

// The messages that one member sends, or receives, on one flow, in their order.
class Walk {
 public:
  enum class Side : uint8_t { kSends, kReceives };
  struct Flow {
    FlowKind kind = FlowKind::kReduction;
    uint32_t index = 0;  // below kOwnerFlows
  };

  // wanted_piece_bytes: as for piece_bytes_of().
  Walk(Flow flow, Side side, uint32_t self, uint64_t wanted_piece_bytes);
  // The next message. Nothing: it belongs to an operation that has not been entered.
  [[nodiscard]] std::optional<Message> next(const EnteredWindows& entered);
  // It has been begun.
  void advance() { ++position_.piece; }

 private:
  [[nodiscard]] std::optional<Message> next_in(const Window& window);

  Flow flow_;
  Side side_;
  uint32_t self_;
  uint64_t wanted_piece_bytes_;
  Position position_;
};

// How many messages a member sends and receives for a window, on all flows.
[[nodiscard]] uint64_t message_count(const Window& window,
                                     uint32_t self,
                                     uint64_t wanted_piece_bytes);

}  // namespace ho::plugin::rail
