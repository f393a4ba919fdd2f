// NCCL's flat ring over all ranks, one per channel. Pure.
//
// A channel's ring goes through the nodes in order, and through a node's ranks from the channel's
// own one on: so every channel crosses between nodes elsewhere, and on the NIC of its number. It
// moves its part of the data in loops of a chunk per rank, each chunk in one slot.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/work.hpp"

namespace ho::nccl_host {

// Ranks in the order of a channel's ring.
[[nodiscard]] std::vector<uint32_t> ring_order(const JobShape& shape, uint32_t channel);

struct RingStep {
  bool receives = false;
  bool sends = false;
  bool reduces = false;  // what is received with this rank's input
  bool stores = false;   // what is received or reduced, or this rank's own, in its output
  uint64_t input = 0;    // bytes into the user's buffers
  uint64_t output = 0;
  uint64_t bytes = 0;
};

class RingPlan {
 public:
  RingPlan(const Work& work,
           const JobShape& shape,
           uint32_t rank,
           uint32_t channel,
           uint32_t channels,
           uint64_t slot_bytes);

  [[nodiscard]] uint64_t steps() const { return loops_ * steps_per_loop_; }
  [[nodiscard]] RingStep step(uint64_t number) const;
  // Chunks in each direction, in all.
  [[nodiscard]] uint64_t sends() const { return loops_ * (steps_per_loop_ - 1); }
  [[nodiscard]] uint64_t receives() const { return sends(); }

 private:
  struct Part {
    uint64_t begin = 0;  // elements
    uint64_t count = 0;
  };
  [[nodiscard]] Part loop_part(uint64_t loop) const;
  [[nodiscard]] RingStep all_reduce_step(const Part& part, uint32_t turn) const;
  [[nodiscard]] RingStep block_step(const Part& part, uint32_t turn) const;
  [[nodiscard]] uint32_t behind(uint32_t steps_back) const;

  Work work_;
  std::vector<uint32_t> order_;
  uint32_t ranks_;
  uint32_t ring_index_ = 0;  // of this rank in the ring
  uint64_t element_bytes_;
  uint64_t begin_ = 0;  // of the channel's part, elements
  uint64_t count_ = 0;
  uint64_t per_loop_;  // elements
  uint64_t loops_;
  uint32_t steps_per_loop_;
};

}  // namespace ho::nccl_host
