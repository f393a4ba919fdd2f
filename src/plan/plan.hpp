// A plan has which rank sends which chunk to which, in which order and on which lane. It is a pure
// value: offsets are in chunks; it has no buffer, byte, NIC or clock. An executor binds it.
//
// Execution model (what verify() checks and src/exec does):
// - A block is a unit of the callers' data with one role (BlockRole): from which rank it comes, or
//   that it is a sum over all ranks, and to which rank it goes, or that it goes to all. A chunk is
//   part `part` of `parts` of one block.
// - A rank's input has the blocks that come from it, and those that are summed; its output those
//   that go to it, and those that go to all. In a buffer they lie in the order of their numbers.
// - Each rank has a list of ops. Ops that use the same link, (peer, lane, rail, connection), in the
//   same direction run in list order (a FIFO); everything else is free but for `deps`.
// - An op with one chunk runs in pieces: piece p of an op waits only for piece p of its deps. Its
//   deps are therefore ops of the same rank on the same chunk. A plan whose ops carry several
//   chunks has `whole_ops` set: each op is one message and deps are between whole ops, any chunk.
// - With `phase_barrier` set, an op waits for all ops of this rank with a smaller phase.
// - The k-th send on a link pairs with the k-th receive of its other end and carries the same
// chunks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "group/group_map.hpp"

namespace ho {

enum class Collective : uint8_t {
  kAllGather = 0,
  kReduceScatter = 1,
  kAllReduce = 2,
  kBroadcast = 3,
  kAllToAll = 4,
  kGather = 5,
  kScatter = 6,
  kReduce = 7,
};
inline constexpr uint8_t kCollectiveCount = 8;
enum class Algorithm : uint8_t {
  kRing = 0,
  kMultiRing = 1,
  kHierarchical = 2,
  kHoRing = 3,
  kDirect = 4,
};
inline constexpr uint8_t kAlgorithmCount = 5;
enum class Lane : uint8_t { kIntra = 0, kInter = 1 };
// kSend reads (src, chunks). kRecv writes (dst, chunks). kRecvReduce: dst = src (+) incoming.
// kCopy: dst = src, local.
enum class OpKind : uint8_t { kSend = 0, kRecv = 1, kRecvReduce = 2, kCopy = 3 };
// kInput and kOutput are the caller's buffers (the same memory when the call is in place), kScratch
// holds partial sums and is the executor's.
enum class Space : uint8_t { kInput = 0, kOutput = 1, kScratch = 2 };

[[nodiscard]] std::string_view to_string(Collective collective);  // "all_gather"
[[nodiscard]] std::string_view to_string(Algorithm algorithm);    // "ho_ring"
[[nodiscard]] std::string_view to_string(Lane lane);
[[nodiscard]] std::string_view to_string(OpKind kind);
[[nodiscard]] std::string_view to_string(Space space);
[[nodiscard]] Result<Collective> parse_collective(std::string_view name);
[[nodiscard]] Result<Algorithm> parse_algorithm(std::string_view name);

// Elements [part * len / parts, (part + 1) * len / parts) of a block of len elements.
struct Chunk {
  uint32_t block = 0;
  uint32_t part = 0;
  uint32_t parts = 1;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

struct PlanOp {
  OpKind kind = OpKind::kSend;
  Lane lane = Lane::kIntra;
  Space src = Space::kInput;
  Space dst = Space::kOutput;
  bool final_sum = false;  // a kRecvReduce that completes a sum (averages are scaled here, once)
  uint16_t phase = 0;
  uint32_t step = 0;        // within the phase and lane, for messages to people
  GlobalRank peer;          // not for kCopy
  RailIndex rail;           // inter lane: whose NIC carries it; 0 on the intra lane
  uint32_t connection = 0;  // of the plan's connection_count between the two ranks
  std::vector<ChunkIndex> chunks;
  std::vector<uint32_t> deps;  // indices of earlier ops in the same rank's list
};

struct RankPlan {
  std::vector<PlanOp> ops;
};

// Where one block comes from and where it goes.
struct BlockRole {
  std::optional<GlobalRank> from;  // nothing: all ranks, whose blocks are summed
  std::optional<GlobalRank> to;    // nothing: all ranks
  [[nodiscard]] bool is_sum() const { return !from; }
  // Whether `rank` has it in its input, or is to have it in its output.
  [[nodiscard]] bool in_input(GlobalRank rank) const { return !from || *from == rank; }
  [[nodiscard]] bool in_output(GlobalRank rank) const { return !to || *to == rank; }
  friend bool operator==(const BlockRole&, const BlockRole&) = default;
};

struct Plan {
  Collective collective = Collective::kAllGather;
  Algorithm algorithm = Algorithm::kRing;
  GlobalRank root;  // of a collective that has_root()
  bool whole_ops = false;
  bool phase_barrier = false;
  uint32_t block_count = 0;  // where the collective sets it: see blocks_of()
  uint32_t connection_count = 1;
  // A bound, the same on all ranks, of the chunks that any rank has in scratch. 0: none.
  uint64_t scratch_chunk_count = 0;
  // By block, where several operations run as one plan (windows of a rail under NCCL, which
  // src/exec never runs). Empty: as role_of() says for the plan's collective.
  std::vector<BlockRole> block_roles;
  // In the order of their blocks. One rank's part of an all-to-all has only the chunks that its ops
  // name, with numbers of its own (own_chunks): a table of all pairs of ranks would be too large.
  std::vector<Chunk> chunks;
  bool own_chunks = false;
  std::vector<std::string> phase_names;  // "reduce_scatter", "all_gather", ...
};

// Broadcast, gather, scatter, reduce.
[[nodiscard]] bool has_root(Collective collective);
// Reduce-scatter, all-reduce, reduce.
[[nodiscard]] bool has_sums(Collective collective);
// Whether every block goes from one rank to one rank: all-to-all, gather, scatter.
[[nodiscard]] bool is_routed(Collective collective);
// How many blocks the data has: the world size where each rank has one, its square for all-to-all;
// nothing where it is the builder's choice.
[[nodiscard]] std::optional<uint64_t> blocks_of(Collective collective, uint32_t world_size);
// All-gather: block r is from rank r to all. Reduce-scatter: the sum to rank r. Gather, scatter:
// from rank r to the root, from the root to rank r. All-to-all: block s * world_size + t is from
// rank s to rank t. The others: all blocks are equal. `block` is within bounds.
[[nodiscard]] BlockRole role_of(const Plan& plan, uint32_t block, uint32_t world_size);

struct PlanRequest {
  Collective collective = Collective::kAllGather;
  Algorithm algorithm = Algorithm::kHoRing;
  // Rings of multi_ring: the number of distinct NICs that every group has. At most the rails.
  uint32_t ring_count = 1;
  GlobalRank root;
};

// The part that all ranks share (but for own_chunks), then one rank's ops. Both are deterministic
// functions of (map, request): every rank builds its own and they fit together.
struct BuiltPlan {
  Plan plan;
  RankPlan mine;
};
[[nodiscard]] Result<BuiltPlan> build_plan(const GroupMap& map,
                                           const PlanRequest& request,
                                           GlobalRank rank);

// All ranks' ops, for verification, printing, cost and simulation.
struct WholePlan {
  Plan plan;
  std::vector<RankPlan> ranks;  // by global rank
};
[[nodiscard]] Result<WholePlan> build_whole_plan(const GroupMap& map, const PlanRequest& request);

}  // namespace ho
