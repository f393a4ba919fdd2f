// How long a collective takes: its closed forms, and what they cost on a cluster. Pure.
//
//   seconds = start + steps x latency of the level + bytes / effective rate
//
// summed over the levels' latencies; levels move their bytes at the same time, or in turn where the
// algorithm waits in between. docs/design/cost.md has the closed forms, and what holds them to the
// plans.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cost/cluster.hpp"
#include "plan/plan.hpp"

namespace ho::cost {

// kRing is one circle through all ranks, kMultiRing as many as NICs (as NCCL has them), kTree
// NCCL's double tree of all-reduce, kPairs an all-to-all of sends and receives between all pairs at
// once. The others are the plans' of the same name.
enum class Algorithm : uint8_t {
  kRing,
  kMultiRing,
  kTree,
  kPairs,
  kHierarchical,
  kHoRing,
  kDirect
};
[[nodiscard]] std::string_view to_string(Algorithm algorithm);
[[nodiscard]] Algorithm algorithm_of(ho::Algorithm algorithm);

struct Call {
  Collective collective = Collective::kAllGather;  // all-gather to broadcast; kPairs: all-to-all
  Algorithm algorithm = Algorithm::kHoRing;
  double bytes =
      0;  // of the whole data: of all ranks' blocks together; of an all-to-all one rank's
  // What a rank passes on before it has the rest of a block. 0: whole blocks, one message each,
  // whose latencies add up: NCCL's own model. Else latencies hide behind what is on its way.
  double message_bytes = 0;
  size_t group_levels = 1;  // of hierarchical, HO-Ring and direct: the levels inside a group
};

// What a collective does on the links of one level.
struct LevelWork {
  double steps = 0;    // messages in a row, each of which waits for the one before
  double bytes = 0;    // that leave each unit that the level joins, while as many enter it
  double flows = 1;    // NICs of the unit that it can use
  double block = 0;    // bytes that one flow passes on in a step
  double message = 0;  // at most all of them, before the rest has come
  double tail = 0;     // of the bytes, once more: what is left when all levels are done
};

struct Work {
  std::array<LevelWork, kMaxLevels> levels;
  double turns = 0;      // of each level, one after the other; 0: all move at the same time
  bool streams = false;  // in messages that are parts of blocks
  bool possible = true;  // there is such an algorithm for the collective
};

[[nodiscard]] Work work_of(const Cluster& cluster, const Members& members, const Call& call);

// Bytes/s that such a collective gets at the boundary of each unit that the level joins.
[[nodiscard]] double rate_of(const Cluster& cluster,
                             const Members& members,
                             size_t level,
                             const LevelWork& work);

// Infinite where the algorithm has no such collective.
[[nodiscard]] double seconds_of(const Cluster& cluster, const Members& members, const Work& work);
[[nodiscard]] double seconds_of(const Cluster& cluster, const Members& members, const Call& call);

}  // namespace ho::cost
