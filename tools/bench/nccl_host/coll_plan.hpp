// Which bytes NCCL's COLLNET_DIRECT moves through the plugin, step by step. Pure. With one rank per
// node NCCL takes COLLNET_CHAIN for all-reduce: a chain of one, whose head makes the same calls,
// with chunks of at most 256 KiB.
//
// Every local rank is the head of a rail. Channels take chunks in turn; a step of a channel is one
// chunk, and up to kGroup channels go to the plugin in one call per step, side by side in the
// region. An all-reduce deals chunks to the heads and always reduces whole ones, also beyond the
// end. An all-gather or reduce-scatter walks over the rail's blocks, one per node, in windows that
// end where the blocks end; what of them is a node's own lies packed at the group's start.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/work.hpp"

namespace ho::nccl_host {

inline constexpr uint32_t kSlots = 8;  // NCCL_STEPS
inline constexpr uint32_t kGroup = 8;  // channels of one call

struct CollSettings {
  uint32_t channels = 4;
  uint64_t slot_bytes = uint64_t{512} << 10;  // of a channel: an eighth of NCCL_BUFFSIZE
  uint64_t chunk_bytes = 0;  // 0: as NCCL chooses by size, which then uses fewer channels too
};

struct Bytes {
  uint64_t offset = 0;
  uint64_t count = 0;
};

// Whether NCCL takes COLLNET_CHAIN, not COLLNET_DIRECT.
[[nodiscard]] bool is_chain(Collective kind, const JobShape& shape);

class CollPlan {
 public:
  enum class Side : uint8_t { kSend = 0, kReceive = 1 };

  CollPlan(const Work& work, const JobShape& shape, uint32_t rank, const CollSettings& settings);

  [[nodiscard]] const Work& work() const { return work_; }
  [[nodiscard]] uint32_t channels() const { return channels_; }
  [[nodiscard]] uint32_t groups() const { return (channels_ + kGroup - 1) / kGroup; }
  [[nodiscard]] uint32_t group_begin(uint32_t group) const { return group * kGroup; }
  [[nodiscard]] uint32_t group_end(uint32_t group) const;
  [[nodiscard]] uint64_t steps() const { return steps_; }
  [[nodiscard]] uint64_t chunk_bytes() const { return chunk_bytes_; }
  [[nodiscard]] uint64_t block_bytes() const { return work_.part_bytes(); }

  // What of a chunk is data. All-reduce: of the user's buffer; else of the rail's blocks.
  [[nodiscard]] Bytes chunk(uint64_t step, uint32_t channel) const;
  // All-gather and reduce-scatter: what of the chunk is this node's own, from its block's begin.
  [[nodiscard]] Bytes own(uint64_t step, uint32_t channel) const;
  // What a group's call covers, of the rail's blocks.
  [[nodiscard]] Bytes window(uint64_t step, uint32_t group) const;
  // Where a channel's bytes lie in the region.
  [[nodiscard]] size_t region_offset(Side side, uint64_t step, uint32_t channel) const;
  [[nodiscard]] static size_t region_bytes(const CollSettings& settings);

 private:
  [[nodiscard]] bool packs(Side side) const;
  [[nodiscard]] uint64_t all_edge(uint64_t step, uint32_t channel) const;
  [[nodiscard]] uint64_t own_edge(uint64_t step, uint32_t channel) const;

  Work work_;
  uint32_t nodes_;
  uint32_t heads_;
  uint32_t node_;
  uint32_t head_;
  uint32_t channels_;
  uint64_t slot_bytes_;
  uint64_t chunk_bytes_;
  uint64_t steps_;
};

}  // namespace ho::nccl_host
