// Communicators for the tuner's tests.
#pragma once

#include "core/tuner/inputs.hpp"

namespace ho::plugin {

// Equal nodes with a head and a NIC of 8000 Mbit/s per rank (a byte takes 1 ns), no limit inside,
// and no time per hop, so that times are bytes.
inline CommonInputs shape(uint32_t nodes, uint32_t local_ranks) {
  CommonInputs inputs;
  inputs.node_count = nodes;
  inputs.rank_count = nodes * local_ranks;
  inputs.least_local_ranks = local_ranks;
  inputs.most_local_ranks = local_ranks;
  inputs.nic_count = local_ranks;
  inputs.head_count = local_ranks;
  inputs.channel_count = 2;
  inputs.nic_mbps = 8000;
  inputs.rail_mbps = 8000;
  inputs.hop_ns = 0;
  inputs.intra_hop_ns = 0;
  inputs.collnet_connected = 1;
  return inputs;
}

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

}  // namespace ho::plugin
