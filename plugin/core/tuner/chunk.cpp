#include "core/tuner/chunk.hpp"

#include <algorithm>

namespace ho::plugin {
namespace {

constexpr uint64_t kKiB = 1024;
// NCCL rounds chunks down to its SIMPLE protocol's grain, which would undo a part of ours.
constexpr uint64_t kGrainBytes = 512;
constexpr uint64_t kNvlsFastMbps = uint64_t{150} * 8000;  // 150 GB/s

// NCCL's three rules: while there are fewer than `chunks` of them and they are larger than `least`.
struct Halving {
  uint64_t chunks;
  uint64_t least;
};

uint64_t first_chunk_bytes(const CommonInputs& inputs, Choice choice) {
  const uint64_t slot = inputs.buffer_bytes / kSteps;
  switch (choice) {
    case Choice::kCollNetChain:
      return std::min(256 * kKiB, slot);
    case Choice::kNvls: {
      const uint64_t node_mbps = uint64_t{inputs.nic_count} * inputs.rail_mbps;
      return std::min((node_mbps < kNvlsFastMbps ? 32 : 128) * kKiB, slot);
    }
    default:
      return slot;
  }
}

// a * b, or the largest value.
uint64_t times(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

}  // namespace

uint64_t block_bytes(const CommonInputs& inputs, uint64_t bytes) noexcept {
  return inputs.rank_count == 0 ? 0 : bytes / inputs.rank_count;
}

uint64_t nccl_chunk_bytes(const CommonInputs& inputs, Choice choice, uint64_t head_bytes) noexcept {
  uint64_t chunk = first_chunk_bytes(inputs, choice);
  if (choice == Choice::kNvls) {
    return chunk;
  }
  const uint64_t per_channel = head_bytes / inputs.channels();
  const uint64_t depth = inputs.one_rank_per_node() ? 1 : 2;
  for (const Halving& rule : {Halving{depth * 64, 128 * kKiB},
                              Halving{depth * 8, 64 * kKiB},
                              Halving{depth * 8, 32 * kKiB}}) {
    while (chunk > rule.least && per_channel / chunk < rule.chunks) {
      chunk /= 2;
    }
  }
  return chunk;
}

uint64_t saved_bytes(uint32_t nodes, uint64_t block_bytes, uint64_t in_flight_bytes) noexcept {
  if (nodes < 2) {
    return 0;
  }
  const uint64_t without_gain = times(block_bytes, nodes - 2);
  return in_flight_bytes <= without_gain ? 0
                                         : std::min(block_bytes, in_flight_bytes - without_gain);
}

uint64_t chosen_chunk_bytes(const CommonInputs& inputs, const ChunkRequest& request) noexcept {
  const uint64_t kept = request.nccl_chunk_bytes;
  const uint64_t block = block_bytes(inputs, request.bytes);
  if (request.collective == TunedCollective::kAllReduce ||
      request.choice != Choice::kCollNetDirect || request.channels == 0 || block == 0 ||
      inputs.node_count < 2) {
    return kept;
  }
  const uint64_t per_chunk_byte = uint64_t{kSteps} * request.channels;
  const uint64_t most = inputs.buffer_bytes / kSteps / kGrainBytes * kGrainBytes;
  if (saved_bytes(inputs.node_count, block, times(most, per_chunk_byte)) == 0) {
    return kept;
  }
  const uint64_t wanted = times(block, inputs.node_count - 1);
  const uint64_t exact = wanted / per_chunk_byte + (wanted % per_chunk_byte == 0 ? 0 : 1);
  const uint64_t grains = std::min(exact, most) / kGrainBytes;
  const uint64_t chunk =
      (std::min(exact, most) % kGrainBytes == 0 ? grains : grains + 1) * kGrainBytes;
  return std::max(kept, std::min(chunk, most));
}

uint64_t in_flight_bytes(const CommonInputs& inputs,
                         TunedCollective collective,
                         Choice choice,
                         uint64_t bytes) noexcept {
  const uint64_t head_bytes = collective == TunedCollective::kAllReduce
                                  ? bytes / std::max(1U, inputs.head_count)
                                  : times(block_bytes(inputs, bytes), inputs.node_count);
  uint64_t chunk = nccl_chunk_bytes(inputs, choice, head_bytes);
  if (inputs.sets_chunk_size == 1) {
    chunk = chosen_chunk_bytes(inputs, {collective, choice, bytes, inputs.channels(), chunk});
  }
  return times(chunk, uint64_t{kSteps} * inputs.channels());
}

}  // namespace ho::plugin
