// How long a collective takes by each of NCCL's algorithms: a model, in one place.
//
// N nodes, P ranks, m = P / N ranks per node, H heads and K NICs per node; R Mbit/s of one NIC and
// direction for NCCL's own sends, r for our rings, G of a GPU to its node; B bytes as NCCL counts
// them (all-reduce: the buffer; the others: of all ranks together). Links are full duplex, work
// inside a node overlaps work between nodes, so that a time is
//
//     start + latency + max(busiest NIC, busiest GPU)
//
// Bytes of a node over its K NICs (a), or of one head's NIC (b: heads share a NIC where H > K):
//   ring        a  (P-1)/P B, all-reduce twice that: a flat ring crosses each node's boundary once
//                  per channel, whatever m is.
//   tree        a  all-reduce only: of its two trees, each with half of the data, a node is a leaf
//                  in one and inside the other: B/2 + 3/2 B out, 2 B; of two nodes B,
//                  of three 3/2 B.
//   nvls_tree   a  as tree.
//   pat         a  (N-1)/N B; one rank per node only.
//   collnet_direct, collnet_chain, nvls: rail rings.
//     all-reduce               b  2 (N-1)/N B/H: a ring all-reduce of a head's share; at least
//                                 32 KiB instead of B/H, since NCCL never trims the last chunk.
//     all-gather, red.-scatter b  N S - g with S = B/P and g from chunk.hpp: one root at a time
//                                 costs N S where the flat ring costs (Nm-1)/(Nm) N S per NIC.
// So all-reduce gains (Nm-1)/((N-1) m), 1.25 for 4 x 4; the others gain only where g > S/m.
//
// Bytes of a GPU inside its node (none where m = 1):
//   ring as above; tree, chain: 2 B (a rank inside the chain passes on sums and results), m = 2: B;
//   direct: all-reduce ((H-1) + (m-1))/H B (scatter to the heads, gather from them), the others
//   (m-1)/m B; nvls, nvls_tree: all-reduce B + B/H, the others B.
//
// Latency: h per hop between nodes, i per hop inside one. A flat ring of all-reduce passes 2(P-1)
// links, 2N-2+min(2, m-1) of them between nodes; of the others P-1 links, N-1+min(1, m-1). Tree:
// 2 ceil(log2 N) h + 2(m-1) i, PAT ceil(log2 N) h; rail rings 2(N-1) h, or N-1 h, and 2 i (chain
// 2(m-1) i). Start: 7 us for a kernel; CollNet also goes through a proxy and our engine: 31 us
// (direct), 30 us (chain), 18 us (nvls), 14 us with one rank per node, which is what NCCL's own
// tables add for a step through CollNet.
//
// A rail ring has at most F bytes in flight (chunk.hpp), so it also takes its latency once more per
// F bytes beyond the first.
//
// Seconds, and ring and tree, are src/cost's; what only NCCL has is here. The formulas of flat
// ring, tree, PAT and of NCCL's starts are known facts about NCCL; those of rail rings follow from
// the ring schedules in core/rail/window.hpp. Not modelled: LL and LL128 (taken as if they cost no
// bandwidth, which favours NCCL), the copy through host memory (put it into r), congestion, the
// first and last chunk of the pipeline.
#pragma once

#include <array>
#include <cstdint>

#include "core/tuner/choice.hpp"
#include "core/tuner/inputs.hpp"

namespace ho::plugin {

// How much less time a rail ring must take than the best of NCCL's own to be chosen. More for
// windows in one node's block: there roots have to overlap for a gain, which in measurements
// (docs/results/plugin-network.md) they did by 6 to 12 % less than in the model.
inline constexpr double kMargin = 1.03;
inline constexpr double kWindowMargin = 1.15;

struct Question {
  TunedCollective collective = TunedCollective::kAllReduce;
  uint64_t bytes = 0;       // of one operation
  bool registered = false;  // both buffers are
};

// By Choice, in nanoseconds; infinite for what cannot run, and for kDefault. Whether CollNet is
// there at all is not in them: NCCL shows that by what it allows.
struct Costs {
  std::array<double, kChoiceCount> ns{};
  double margin = kMargin;
  [[nodiscard]] double of(Choice choice) const { return ns[static_cast<size_t>(choice)]; }
};

// All infinite for one node, no bytes, or rates that are not known.
[[nodiscard]] Costs modelled_costs(const CommonInputs& inputs, const Question& question) noexcept;

// Whether LL, which has about half of a hop's latency and sends twice the bytes, is faster than
// SIMPLE. Of ring and tree; false for the others.
[[nodiscard]] bool low_latency_is_faster(const CommonInputs& inputs,
                                         const Question& question,
                                         Choice choice) noexcept;

struct Decision {
  Choice choice = Choice::kDefault;
  Choice rival = Choice::kDefault;      // the best of NCCL's own algorithms
  Choice candidate = Choice::kDefault;  // the best of the possible rail rings, chosen or not
};

// Among `possible` a rail ring that beats the best of NCCL's own by the margin; else kOwn, or
// kDefault where there are no costs. Ring and tree are taken as possible even if `possible` does
// not have them, so that it never seems better to overrule a user who forbade them.
[[nodiscard]] Decision decide(const Costs& costs, Choices possible) noexcept;

}  // namespace ho::plugin
