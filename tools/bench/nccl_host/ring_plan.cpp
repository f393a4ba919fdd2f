#include "bench/nccl_host/ring_plan.hpp"

#include <algorithm>

#include "bench/nccl_host/error.hpp"

namespace ho::nccl_host {

std::vector<uint32_t> ring_order(const JobShape& shape, uint32_t channel) {
  std::vector<uint32_t> order;
  for (uint32_t node = 0; node < shape.nodes; ++node) {
    for (uint32_t i = 0; i < shape.ranks_per_node; ++i) {
      order.push_back(shape.rank_of(node, (channel + i) % shape.ranks_per_node));
    }
  }
  return order;
}

RingPlan::RingPlan(const Work& work,
                   const JobShape& shape,
                   uint32_t rank,
                   uint32_t channel,
                   uint32_t channels,
                   uint64_t slot_bytes)
    : work_(work),
      order_(ring_order(shape, channel)),
      ranks_(shape.world()),
      element_bytes_(size_bytes(work.dtype)),
      per_loop_(slot_bytes / element_bytes_) {
  expect(ranks_ > 1, "a ring has more than one rank");
  ring_index_ = static_cast<uint32_t>(std::ranges::find(order_, rank) - order_.begin());
  const uint64_t each = divided_up(work.count, channels);
  begin_ = std::min(each * channel, work.count);
  count_ = std::min(each, work.count - begin_);
  const bool whole = work.kind == Collective::kAllReduce;
  per_loop_ *= whole ? ranks_ : 1;
  loops_ = divided_up(count_, per_loop_);
  steps_per_loop_ = whole ? 2 * ranks_ - 1 : ranks_;
}

RingPlan::Part RingPlan::loop_part(uint64_t loop) const {
  const uint64_t done = loop * per_loop_;
  return {begin_ + done, std::min(per_loop_, count_ - done)};
}

// The place so many before this rank's.
uint32_t RingPlan::behind(uint32_t steps_back) const {
  return (ring_index_ + 2 * ranks_ - steps_back) % ranks_;
}

// Once around to reduce, once more to spread.
RingStep RingPlan::all_reduce_step(const Part& part, uint32_t turn) const {
  const uint32_t last_reduced = ranks_ - 1;
  const uint32_t piece = behind(turn < ranks_ ? turn + 1 : turn - last_reduced);
  const uint64_t each = divided_up(part.count, ranks_);
  const uint64_t begin = std::min(piece * each, part.count);
  RingStep step;
  step.receives = turn > 0;
  step.sends = turn + 2 < 2 * ranks_;
  step.reduces = turn > 0 && turn <= last_reduced;
  step.stores = turn >= last_reduced;
  step.input = (part.begin + begin) * element_bytes_;
  step.output = step.input;
  step.bytes = std::min(each, part.count - begin) * element_bytes_;
  return step;
}

// Blocks of ranks: an all-gather begins with its own, a reduce-scatter ends with it.
RingStep RingPlan::block_step(const Part& part, uint32_t turn) const {
  const bool gathers = work_.kind == Collective::kAllGather;
  const uint64_t block = uint64_t{order_[behind(gathers ? turn : turn + 1)]} * work_.count;
  RingStep step;
  step.receives = turn > 0;
  step.sends = turn + 1 < ranks_;
  step.reduces = !gathers && turn > 0;
  step.stores = gathers || turn + 1 == ranks_;
  step.input = (gathers ? part.begin : block + part.begin) * element_bytes_;
  step.output = (gathers ? block + part.begin : part.begin) * element_bytes_;
  step.bytes = part.count * element_bytes_;
  return step;
}

RingStep RingPlan::step(uint64_t number) const {
  const Part part = loop_part(number / steps_per_loop_);
  const auto turn = static_cast<uint32_t>(number % steps_per_loop_);
  return work_.kind == Collective::kAllReduce ? all_reduce_step(part, turn)
                                              : block_step(part, turn);
}

}  // namespace ho::nccl_host
