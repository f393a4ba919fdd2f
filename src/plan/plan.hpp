// A plan says which rank sends which chunk to whom, in which order and on which lane. It is a pure
// value: offsets are in chunks; it knows no buffer, byte, NIC or clock. An executor binds it.
//
// Execution model (what verify() checks and src/exec does):
// - A block is a unit of the caller's data: for all-gather and reduce-scatter block r belongs to
//   global rank r; an all-reduce or broadcast has as many equal blocks as the builder wants.
//   A chunk is part `part` of `parts` of one block.
// - Each rank has a list of ops. Ops that use the same link, (peer, lane, rail, connection), in the
//   same direction run in list order (a FIFO); everything else is free but for `deps`.
// - An op with one chunk runs in pieces: piece p of an op waits only for piece p of its deps. Its
//   deps are therefore ops of the same rank on the same chunk. A plan whose ops carry several
//   chunks has `whole_ops` set: each op is one message and deps are between whole ops, any chunk.
// - With `phase_barrier` set, an op waits for all ops of this rank with a smaller phase.
// - The k-th send on a link meets the k-th receive of its other end and carries the same chunks.
#pragma once

#include <cstdint>
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
};
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

// What is done with one block. An all-gather brings it from its owner to all ranks, a
// reduce-scatter brings its sum to its owner; an all-reduce's has no owner.
struct BlockRole {
  Collective collective = Collective::kAllReduce;
  GlobalRank owner;
  friend bool operator==(const BlockRole&, const BlockRole&) = default;
};

struct Plan {
  Collective collective = Collective::kAllGather;
  Algorithm algorithm = Algorithm::kRing;
  GlobalRank root;  // broadcast only
  bool whole_ops = false;
  bool phase_barrier = false;
  uint32_t block_count = 0;  // world size for all-gather and reduce-scatter without block_roles
  uint32_t connection_count = 1;
  // By block, where several operations run as one plan (windows of a rail under NCCL, which
  // src/exec never runs). Empty: each block has the plan's collective; all-gather and
  // reduce-scatter: block r belongs to rank r; broadcast: all belong to the root.
  std::vector<BlockRole> block_roles;
  std::vector<Chunk> chunks;
  std::vector<std::string> phase_names;  // "reduce_scatter", "all_gather", ...
};

struct PlanRequest {
  Collective collective = Collective::kAllGather;
  Algorithm algorithm = Algorithm::kHoRing;
  // Rings of multi_ring: the number of distinct NICs that every group has. At most the rails.
  uint32_t ring_count = 1;
  GlobalRank root;
};

// The part that all ranks share, then one rank's ops. Both are deterministic functions of
// (map, request): every rank builds its own and they fit together.
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
