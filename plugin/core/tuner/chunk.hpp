// How much of an all-gather or reduce-scatter NCCL keeps in flight through CollNet, and the chunk
// size that keeps enough.
//
// The rail buffer of one head holds N blocks of S bytes, one per node (S = bytes per rank). NCCL
// walks through it in windows, in order: per channel it has 8 steps of a chunk in flight, so
// F = 8 x channels x chunk bytes of the buffer at once. Block k is broadcast along the ring from
// node k (reduced along the ring to node k). It crosses N - 1 of the N links; the link that it
// skips is another one for each block.
//
// The effect of F. As long as the window touches fewer than N blocks, some link is skipped by none
// of them and carries every byte of the window: the rate is that of one link, however many roots
// overlap. Only while all N blocks are touched can each link skip one. Let
// g = min(S, max(0, F - (N - 2) S)) be what the window shows of the last block before block 0 is
// through. From 0 to (N - 1) S, these first g bytes of the last block can go ahead over the links
// that the earlier blocks skip, one after the other: link k is free during block k, which is the
// order in which the last block needs them. So the busiest link is busy for
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

// S. `bytes` is what NCCL passes to tuners: of all ranks together.
[[nodiscard]] uint64_t block_bytes(const CommonInputs& inputs, uint64_t bytes) noexcept;

// NCCL's own chunk, for a choice that goes through CollNet: a slot of the buffer. It is at most
// 256 KiB for the chain, and for NVLS 128 KiB, or 32 KiB below 150 GB/s per node. It is halved to
// 128, 64 and 32 KiB while a channel's share of a head's data has too few chunks.
[[nodiscard]] uint64_t nccl_chunk_bytes(const CommonInputs& inputs,
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

// The result of getChunkSize: NCCL's own value, except for all-gather and reduce-scatter by CollNet
// direct. There it is the smallest multiple of 512 that has (N - 1) S bytes in flight, at most a
// slot of the buffer (NCCL clamps to that). If not even that gains anything over one root at a
// time, NCCL's value. Never less than NCCL's value. NVLS keeps NCCL's value: its own buffers are
// cut to NCCL's chunk, a larger one has no room.
[[nodiscard]] uint64_t chosen_chunk_bytes(const CommonInputs& inputs,
                                          const ChunkRequest& request) noexcept;

// F for a decision: with our chunk where NCCL takes one from us, else with NCCL's.
[[nodiscard]] uint64_t in_flight_bytes(const CommonInputs& inputs,
                                       TunedCollective collective,
                                       Choice choice,
                                       uint64_t bytes) noexcept;

}  // namespace ho::plugin
