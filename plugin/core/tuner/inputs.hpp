// What decisions rest on, besides a call's own arguments and NCCL's table of costs.
//
// NCCL hangs where ranks take different algorithms. It gives all ranks equal arguments and equal
// tables. Everything else that the tuner uses is in CommonInputs. Every rank computes the same
// value of it by itself, from what NCCL passes to all ranks of a communicator and from settings
// that must be the same on all nodes. If they are not, the rails refuse (consistency_text();
// docs/design/adr/0012-tuners-decide-the-same.md).
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/status.hpp"

namespace ho::plugin {

// NCCL's buffer per channel, NCCL_BUFFSIZE unset.
inline constexpr uint32_t kUsualBufferBytes = 4U << 20U;
// Slots of that buffer: steps in flight per channel.
inline constexpr uint32_t kSteps = 8;
// A rank with more local peers cannot take CollNet direct or chain.
inline constexpr uint32_t kMaxDirectRanks = 8;

// In the place of its digest, for a tuning file that cannot be followed.
inline constexpr uint64_t kBadTuningFile = UINT64_MAX;

// Flags are 0 or 1.
struct CommonInputs {
  uint32_t node_count = 0;
  uint32_t rank_count = 0;
  uint32_t least_local_ranks = 0;  // ranks on the node that has fewest
  uint32_t most_local_ranks = 0;
  uint32_t nic_count = 0;                     // per node
  uint32_t head_count = 0;                    // per node: ranks that a rail ring goes through
  uint32_t channel_count = 0;                 // of CollNet; 0: not known
  uint32_t buffer_bytes = kUsualBufferBytes;  // per channel, of the SIMPLE protocol
  uint32_t nic_mbps = 0;          // Mbit/s of one NIC and direction for NCCL's sends; 0: not known
  uint32_t rail_mbps = 0;         // the same for our rings
  uint32_t intra_mbps = 0;        // Mbit/s of a GPU to its node; 0: taken as no limit
  uint32_t hop_ns = 20'000;       // from rank to rank over a NIC, a small message
  uint32_t intra_hop_ns = 2000;   // the same inside a node
  uint8_t collnet_connected = 0;  // known to be, for this communicator, to every rank of it
  uint8_t whole_windows = 0;      // registered user buffers reach CollNet in one call
  uint8_t sets_chunk_size = 0;    // NCCL takes chunk sizes from us (tuner v6)
  uint8_t reduces_all_types = 0;  // CollNet takes each type and operation of NCCL's
  uint8_t algorithms_filtered = 0;  // the user set NCCL_ALGO or NCCL_PROTO
  uint8_t unused[7] = {};
  uint64_t tuning_file_digest = 0;  // TuningFile::digest(), or kBadTuningFile

  // Then NCCL can take CollNet for all-gather and reduce-scatter.
  [[nodiscard]] bool every_rank_is_head() const { return most_local_ranks <= head_count; }
  [[nodiscard]] bool one_rank_per_node() const { return rank_count == node_count; }
  // Channels that a decision reckons with: where NCCL's number is not known, one per NIC. NCCL
  // often has more; to expect too many would choose rail rings that then have too little under way.
  [[nodiscard]] uint32_t channels() const;

  friend bool operator==(const CommonInputs&, const CommonInputs&) = default;
};
static_assert(std::has_unique_object_representations_v<CommonInputs>);
static_assert(std::is_trivially_copyable_v<CommonInputs> && sizeof(CommonInputs) == 72);

// Whether they can be true.
[[nodiscard]] Status check(const CommonInputs& inputs);

// What all nodes must have in common, as lines of "what=value": all that is not per communicator.
[[nodiscard]] std::string consistency_text(const CommonInputs& inputs);

// HORING_TUNER_* and NCCL's own settings, NCCL_BUFFSIZE, NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS,
// NCCL_ALGO and NCCL_PROTO; what is not set
// keeps `inputs`' value. Where no rate is set for the rings they are taken to be as fast as the
// NIC.
[[nodiscard]] Result<CommonInputs> with_environment(CommonInputs inputs);

}  // namespace ho::plugin
