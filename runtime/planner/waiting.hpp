// What a rank waits for that other dimensions of parallelism send: communication that nothing
// hides. Pure.
//
// Each of a dimension's collectives takes what src/cost has of one among its ranks, on the links of
// the nodes: its start, its latencies, its bytes at the rate that it gets beside the other ranks'.
//
//   tensor     an all-gather or a reduce-scatter of a layer's activations, in a node
//   context    keys and values, once around a circle of the ranks
//   experts    an all-to-all of tokens
//   pipeline   an exchange of two ranks, which takes what one sends to the other
#pragma once

#include <vector>

#include "cost/links.hpp"
#include "planner/parallelism.hpp"

namespace paro {

struct OtherDimensions {
  std::vector<DimensionTraffic> traffic;  // of a sequence
  WorldShape nodes;
  Links links;        // of these
  double bubble = 0;  // of a pipeline's step, as a share of it
};

// Seconds of what one dimension sends, in a micro-batch of so many sequences, with so much of the
// host for each launch.
[[nodiscard]] double dimension_s(const DimensionTraffic& traffic,
                                 const WorldShape& nodes,
                                 const Links& links,
                                 double sequences,
                                 double launch_s);

// Of a step, with the links between nodes as they are and half as good.
struct WaitingSeconds {
  double usual = 0;
  double on_half_links = 0;
};
[[nodiscard]] WaitingSeconds waiting_seconds(const OtherDimensions& others,
                                             double micro_batch,
                                             double micro_batches,
                                             double launch_s);

}  // namespace paro
