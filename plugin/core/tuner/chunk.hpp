// How much of an all-gather or reduce-scatter NCCL keeps in flight through CollNet, and the chunk
// size that keeps enough.
//
// The rail buffer of one head holds N blocks of S bytes, one per node (S = bytes per rank). NCCL
// walks through it in windows, in order: per channel it has 8 steps of a chunk in flight, so
// F = 8 x channels x chunk bytes of the buffer at once. Block k is broadcast along the ring from
// node k (reduced along the ring to node k): it crosses N - 1 of the N links, all but one, and that
// one is another link for each block.
//
// What F buys. As long as the window touches fewer than N blocks, some link is skipped by none of
// them and carries every byte of the window: the walk goes at one link's rate, however many roots
// overlap. Only while all N blocks are touched can each link be excused from one. From 0 to
// (N - 1) S the last block's first g bytes can go ahead over the links that the earlier blocks
// skip, one after the other (link k is free during block k, which is the order in which the last
// block needs them), where g = min(S, max(0, F - (N - 2) S)) is what the window shows of the last
// block before block 0 is through. So the busiest link is busy for
//
//     N S - g bytes, g = clamp(F - (N - 2) S, 0, S)
//
// between one root at a time, N S, and the ring's optimum (N - 1) S, which takes F >= (N - 1) S.
// For two nodes any F helps; for four nodes two blocks in flight gain nothing, three gain all.
// Reduce-scatter is the same with the links numbered one on. A schedule that gives no preference to
// earlier blocks may get less.
#pragma once

#include <cstdint>

#include "core/tuner/choice.hpp"
#include "core/tuner/inputs.hpp"

namespace ho::plugin {

// S. `bytes` is what NCCL tells tuners: of all ranks together.
[[nodiscard]] uint64_t block_bytes(const AgreedInputs& inputs, uint64_t bytes) noexcept;

// NCCL's chunk without our doing, for a choice that goes through CollNet: a slot of the buffer
// (chain: at most 256 KiB, NVLS: at most 128 KiB and 32 KiB below 150 GB/s per node), halved down
// to 128, 64 and 32 KiB while a channel's share of a head's data has too few chunks.
[[nodiscard]] uint64_t nccl_chunk_bytes(const AgreedInputs& inputs,
                                        Choice choice,
                                        uint64_t head_bytes) noexcept;

// g of the essay: what a window of so many bytes saves.
[[nodiscard]] uint64_t saved_bytes(uint32_t nodes,
                                   uint64_t block_bytes,
                                   uint64_t in_flight_bytes) noexcept;

struct ChunkRequest {
  TunedCollective collective = TunedCollective::kAllReduce;
  Choice choice = Choice::kDefault;  // what NCCL took
  uint64_t bytes = 0;
  uint32_t channels = 0;
  uint64_t nccl_chunk_bytes = 0;
};

// What to give back from getChunkSize. NCCL's own value but for all-gather and reduce-scatter by
// CollNet direct, where it is the smallest multiple of 512 that has (N - 1) S bytes in flight, at
// most a slot of the buffer (NCCL clamps to that); where not even that gains anything over one root
// at a time, NCCL's value. Never less than NCCL's value. NVLS keeps NCCL's value: its own buffers
// are cut to NCCL's chunk, a larger one has no room.
[[nodiscard]] uint64_t chosen_chunk_bytes(const AgreedInputs& inputs,
                                          const ChunkRequest& request) noexcept;

// F for a decision: with our chunk where NCCL asks for it, with NCCL's where not.
[[nodiscard]] uint64_t in_flight_bytes(const AgreedInputs& inputs,
                                       TunedCollective collective,
                                       Choice choice,
                                       uint64_t bytes) noexcept;

}  // namespace ho::plugin
