#include "bench/nccl_host/coll_plan.hpp"

#include <algorithm>

#include "bench/nccl_host/error.hpp"

namespace ho::nccl_host {
namespace {

constexpr uint64_t kKib = 1024;

// Halved while there would be too few loops to keep the pipeline full, as NCCL does.
uint64_t chosen_chunk(Collective kind,
                      uint64_t total,
                      const JobShape& shape,
                      uint32_t channels,
                      const CollSettings& settings) {
  const uint64_t depth = shape.ranks_per_node > 1 ? 2 : 1;
  const uint64_t per_loop = std::max<uint64_t>(1, uint64_t{channels} * shape.ranks_per_node);
  uint64_t chunk = is_chain(kind, shape) ? std::min<uint64_t>(settings.slot_bytes, 256 * kKib)
                                         : settings.slot_bytes;
  const auto shrink = [&](uint64_t loops, uint64_t least) {
    while (total / (per_loop * chunk) < loops && chunk > least) {
      chunk /= 2;
    }
  };
  shrink(depth * 64, 128 * kKib);
  shrink(depth * 8, 64 * kKib);
  shrink(depth * 8, 32 * kKib);
  return chunk;
}

// Small operations take fewer channels, each of which then has 32 KiB per head, as with NCCL.
uint32_t chosen_channels(uint64_t total, const JobShape& shape, const CollSettings& settings) {
  constexpr uint64_t kMinBytes = uint64_t{32} << 10;
  const uint64_t useful = total / (kMinBytes * shape.ranks_per_node);
  return static_cast<uint32_t>(std::clamp<uint64_t>(useful, 1, settings.channels));
}

}  // namespace

bool is_chain(Collective kind, const JobShape& shape) {
  return kind == Collective::kAllReduce && shape.ranks_per_node == 1;
}

CollPlan::CollPlan(const Work& work,
                   const JobShape& shape,
                   uint32_t rank,
                   const CollSettings& settings)
    : work_(work),
      nodes_(shape.nodes),
      heads_(shape.ranks_per_node),
      node_(shape.node_of(rank)),
      head_(shape.local_of(rank)),
      channels_(settings.chunk_bytes != 0
                    ? settings.channels
                    : chosen_channels(work.total_bytes(shape.world()), shape, settings)),
      slot_bytes_(settings.slot_bytes),
      chunk_bytes_(
          settings.chunk_bytes != 0
              ? settings.chunk_bytes
              : chosen_chunk(
                    work.kind, work.total_bytes(shape.world()), shape, channels_, settings)) {
  expect(chunk_bytes_ <= slot_bytes_ && chunk_bytes_ % sizeof(uint64_t) == 0 && channels_ > 0,
         "chunks fit the slots");
  const uint64_t moved =
      work.kind == Collective::kAllReduce ? work.part_bytes() : nodes_ * work.part_bytes();
  const uint64_t heads = work.kind == Collective::kAllReduce ? heads_ : 1;
  steps_ = divided_up(moved, channels_ * heads * chunk_bytes_);
}

uint32_t CollPlan::group_end(uint32_t group) const {
  return std::min(group_begin(group) + kGroup, channels_);
}

uint64_t CollPlan::all_edge(uint64_t step, uint32_t channel) const {
  const uint64_t offset = (step * channels_ + channel) * chunk_bytes_;
  return std::min(offset, nodes_ * block_bytes());
}

uint64_t CollPlan::own_edge(uint64_t step, uint32_t channel) const {
  const uint64_t begin = node_ * block_bytes();
  return std::clamp(all_edge(step, channel), begin, begin + block_bytes()) - begin;
}

Bytes CollPlan::chunk(uint64_t step, uint32_t channel) const {
  if (work_.kind != Collective::kAllReduce) {
    const uint64_t begin = all_edge(step, channel);
    return {begin, all_edge(step, channel + 1) - begin};
  }
  const uint64_t index = (step * channels_ + channel) * heads_ + head_;
  const uint64_t total = work_.part_bytes();
  const uint64_t begin = std::min(index * chunk_bytes_, total);
  return {begin, std::min(chunk_bytes_, total - begin)};
}

Bytes CollPlan::own(uint64_t step, uint32_t channel) const {
  const uint64_t begin = own_edge(step, channel);
  return {begin, own_edge(step, channel + 1) - begin};
}

Bytes CollPlan::window(uint64_t step, uint32_t group) const {
  const uint64_t begin = all_edge(step, group_begin(group));
  return {begin, all_edge(step, group_end(group)) - begin};
}

bool CollPlan::packs(Side side) const {
  return work_.kind == (side == Side::kSend ? Collective::kAllGather : Collective::kReduceScatter);
}

size_t CollPlan::region_offset(Side side, uint64_t step, uint32_t channel) const {
  const size_t half = side == Side::kSend ? 0 : kSlots * size_t{channels_} * slot_bytes_;
  const size_t slot = half + (step % kSlots) * channels_ * slot_bytes_;
  if (work_.kind == Collective::kAllReduce) {
    return slot + channel * chunk_bytes_;
  }
  const uint32_t first = channel / kGroup * kGroup;
  const uint64_t within = packs(side) ? own_edge(step, channel) - own_edge(step, first)
                                      : all_edge(step, channel) - all_edge(step, first);
  return slot + first * chunk_bytes_ + within;
}

size_t CollPlan::region_bytes(const CollSettings& settings) {
  return size_t{2} * kSlots * settings.channels * settings.slot_bytes;
}

}  // namespace ho::nccl_host
