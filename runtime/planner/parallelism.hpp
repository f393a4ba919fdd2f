// Tensor, pipeline, context and expert parallelism beside data parallelism: what they leave of
// model, nodes and NICs to it, and what they send themselves. Pure.
//
// Ranks are in the usual order tp-cp-ep-dp-pp: a tensor-parallel group is t ranks side by side, c
// of those share a sequence, d such replicas share the data, and stages of the pipeline are
// furthest apart. Of the d replicas of a stage, e at a time share the routed experts. With m ranks
// and k NICs in a node
//
//   m_dp = min(m, t c d) / t   ranks in a node of those that share states and add up gradients
//   k / t                      NICs that they have: the t such sets of a node run at once
//
// These are all d replicas' and all c ranks of a sequence, since each of them has the same
// parameters and gradients of its own tokens: so shard and reduce Megatron-LM's distributed
// optimizer (its data-parallel group with context parallelism) and torchtitan (its mesh of dp_shard
// and cp). Routed experts are shared by replicas alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "cost/cluster.hpp"
#include "cost/memory.hpp"
#include "model/activations.hpp"
#include "model/transformer.hpp"

namespace paro {

struct Parallelism {
  uint32_t tensor = 1;    // t
  uint32_t pipeline = 1;  // p
  uint32_t context = 1;   // c
  uint32_t expert = 1;    // e, of the data-parallel ranks
  uint32_t parts = 1;     // v, of a stage's layers, interleaved
  [[nodiscard]] uint64_t ranks_of_replica() const {
    return uint64_t{1} * tensor * pipeline * context;
  }
  [[nodiscard]] bool alone() const { return ranks_of_replica() == 1 && expert == 1; }
};

// Ok, or which size cannot be and what it may be: stages, and the ranks of a sequence, must not
// begin or end inside a unit.
[[nodiscard]] ho::Status check(const Parallelism& sizes,
                               const Transformer& model,
                               const ho::cost::Cluster& levels,
                               double sequence,
                               const ho::OptionNames& named = {});

// What data parallelism sees: the ranks that share states, in groups of those that share a node,
// and their NICs.
struct DataParallel {
  WorldShape world;  // d c ranks
  double nics_per_group = 1;
  uint32_t replicas = 1;  // d, each with sequences of its own
};
[[nodiscard]] DataParallel data_parallel(const Parallelism& sizes,
                                         const WorldShape& world,
                                         double nics_per_node);
// The same of a cluster of levels: of each, the units that a stage has, and the NICs that tensor
// parallelism leaves one of its t sets. Of sizes that check() accepts.
[[nodiscard]] ho::cost::Cluster data_parallel_levels(const Parallelism& sizes,
                                                     const ho::cost::Cluster& levels);

// Of the stage that holds most: its layers and an embedding or a head, over t ranks (norms and
// biases are few, and counted as split), the routed experts over e ranks beside.
struct RankModel {
  double dense = 0;
  double routed = 0;
  uint32_t layers = 1;
  [[nodiscard]] double parameters() const { return dense + routed; }
};
[[nodiscard]] PipelineShape shape_of(const Parallelism& sizes, uint32_t micro_batches = 1);

// Layers that stages do not divide are spread evenly: this is the stage that has most.
[[nodiscard]] RankModel model_of_rank(const Transformer& model, const Parallelism& sizes);

// The ranks that hold the same routed experts: d / e replicas' c ranks, of which those of m_dp / e
// share a node.
[[nodiscard]] WorldShape expert_world(const WorldShape& data,
                                      uint32_t expert,
                                      uint32_t context = 1);

// What collectives between nodes move for each byte of a rank's model: a node's sets of routed
// experts send for themselves, each among fewer nodes where it has fewer ranks.
[[nodiscard]] double between_factor(const RankModel& model,
                                    const WorldShape& data,
                                    uint32_t expert,
                                    uint32_t context = 1);
// The same between units of several levels: of the level that moves most.
[[nodiscard]] double between_factor(const RankModel& model,
                                    const ho::cost::Cluster& data,
                                    const Parallelism& sizes);

// The bubble as a share of the time that a full pipeline computes: (p - 1) / m with 1F1B,
// interleaved (p - 1) / (v m), of m micro-batches.
[[nodiscard]] double bubble_share(const Parallelism& sizes, uint32_t micro_batches);

// How ranks send: an all-gather or a reduce-scatter, once around a circle, or each to each.
enum class Pattern : uint8_t { kGather, kCircle, kPairs };

// Of one rank and micro-batch, forward and backward.
struct DimensionTraffic {
  std::string_view dimension = "";  // "tp"
  double bytes = 0;                 // that the rank sends, and receives as many
  Pattern pattern = Pattern::kPairs;
  size_t level = 0;  // of the cluster's, the outermost that it takes: 0 is inside nodes
  // In so many collectives one after the other, each among so many ranks, this far from one
  // another.
  double calls = 0;
  uint32_t ranks = 1;
  uint64_t stride = 1;
  double at_once = 1;  // of the ranks of a unit, those that send over its NICs then
};

// Of those whose size is above 1. Per layer: tensor parallelism 4 all-reduces, 8 b s h (t - 1) / t
// elements; context parallelism passes keys and values around once forward, and with their
// gradients twice backward; expert parallelism sends a token to its experts and back, and both
// again for gradients, 4 b s h k (e - 1) / e. Pipelines pass b s h both ways at each of a stage's
// v boundaries, at worst to another of the outermost units, to which the ranks of one stage send
// then. An all-reduce is two calls, a
// reduce-scatter and an all-gather, with sequence parallelism at different places. s is a rank's
// part of the sequence, and with sequence parallelism tensor-parallel ranks send a t-th of it each.
// Elements have the shape's bytes. Full recomputation does the forward part's once more.
[[nodiscard]] std::vector<DimensionTraffic> traffic_of(const Parallelism& sizes,
                                                       const Transformer& model,
                                                       const ho::cost::Cluster& cluster,
                                                       const ActivationShape& shape);

// Of one of its collectives, how many ranks are in a node, in how many nodes of a pod, and so on:
// where units do not divide them, fewer in each.
[[nodiscard]] ho::cost::Members members_of(const DimensionTraffic& traffic,
                                           const ho::cost::Cluster& cluster);

}  // namespace paro
