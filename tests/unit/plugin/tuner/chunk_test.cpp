#include "core/tuner/chunk.hpp"

#include "catch.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

ChunkRequest request(TunedCollective collective, uint64_t bytes, uint64_t kept = 128 * kKiB) {
  return {collective, Choice::kCollNetDirect, bytes, 2, kept};
}

}  // namespace

TEST_CASE("a window saves nothing until it reaches the last block, and at most a block") {
  struct Row {
    uint32_t nodes;
    uint64_t in_flight;  // blocks have 100 bytes
    uint64_t saved;
  };
  for (const Row& row : {Row{1, 1000, 0},
                         Row{2, 0, 0},
                         Row{2, 40, 40},
                         Row{2, 100, 100},
                         Row{2, 500, 100},
                         Row{3, 100, 0},
                         Row{3, 130, 30},
                         Row{3, 200, 100},
                         Row{4, 200, 0},
                         Row{4, 201, 1},
                         Row{4, 300, 100},
                         Row{16, 1400, 0},
                         Row{16, 1500, 100}}) {
    CAPTURE(row.nodes, row.in_flight);
    CHECK(saved_bytes(row.nodes, 100, row.in_flight) == row.saved);
  }
  CHECK(saved_bytes(1U << 30U, UINT64_MAX / 2, 1) == 0);
}

TEST_CASE("a block is one rank's bytes") {
  CHECK(block_bytes(shape(4, 4), 1600) == 100);
  CHECK(block_bytes(shape(4, 4), 15) == 0);
  CHECK(block_bytes(CommonInputs(), 15) == 0);
}

TEST_CASE("NCCL's chunk is a slot, halved while a channel has too few") {
  struct Row {
    uint64_t per_channel;
    uint64_t chunk;
  };
  // Two channels; depth 2, as ranks have peers: 128 chunks down to 128 KiB, 16 down to 32 KiB.
  for (const Row& row : {Row{0, 32 * kKiB},
                         Row{1 * kMiB - 1, 32 * kKiB},
                         Row{1 * kMiB, 64 * kKiB},
                         Row{2 * kMiB - 1, 64 * kKiB},
                         Row{2 * kMiB, 128 * kKiB},
                         Row{32 * kMiB - 1, 128 * kKiB},
                         Row{32 * kMiB, 256 * kKiB},
                         Row{64 * kMiB, 512 * kKiB},
                         Row{kGiB, 512 * kKiB}}) {
    CAPTURE(row.per_channel);
    CHECK(nccl_chunk_bytes(shape(4, 4), Choice::kCollNetDirect, 2 * row.per_channel) == row.chunk);
  }
  CHECK(nccl_chunk_bytes(shape(4, 4), Choice::kCollNetChain, kGiB) == 256 * kKiB);
  // Depth 1 without peers.
  CHECK(nccl_chunk_bytes(shape(4, 1), Choice::kCollNetDirect, 2 * kMiB) == 128 * kKiB);
  CHECK(nccl_chunk_bytes(shape(4, 1), Choice::kCollNetDirect, 2 * kMiB - 2) == 64 * kKiB);
}

TEST_CASE("NVLS has 32 KiB below 150 GB/s per node, 128 KiB from there on") {
  CommonInputs inputs = shape(4, 8);
  CHECK(nccl_chunk_bytes(inputs, Choice::kNvls, kGiB) == 32 * kKiB);
  inputs.rail_mbps = 150'000;
  CHECK(nccl_chunk_bytes(inputs, Choice::kNvls, kGiB) == 128 * kKiB);
  inputs.rail_mbps = 149'999;
  CHECK(nccl_chunk_bytes(inputs, Choice::kNvls, kGiB) == 32 * kKiB);
  inputs.buffer_bytes = 64 * kKiB;
  CHECK(nccl_chunk_bytes(inputs, Choice::kNvls, kGiB) == 8 * kKiB);
}

TEST_CASE("our chunk has N - 1 blocks in flight") {
  const CommonInputs inputs = shape(4, 4);
  // Blocks of 1.25 MiB: 3.75 MiB in flight over 16 chunks.
  CHECK(chosen_chunk_bytes(inputs, request(TunedCollective::kAllGather, 20 * kMiB)) == 240 * kKiB);
  CHECK(chosen_chunk_bytes(inputs, request(TunedCollective::kReduceScatter, 20 * kMiB)) ==
        240 * kKiB);
  // Rounded up to what NCCL would round down to.
  const uint64_t odd =
      chosen_chunk_bytes(inputs, request(TunedCollective::kAllGather, 20 * kMiB + 16));
  CHECK(odd == 240 * kKiB + 512);
  CHECK(odd * 16 >= 3 * block_bytes(inputs, 20 * kMiB + 16));
  // 8 MiB in flight is the most with a buffer of 4 MiB: two blocks of 3.5 MiB and some of a third.
  CHECK(chosen_chunk_bytes(inputs, request(TunedCollective::kAllGather, 56 * kMiB)) == 512 * kKiB);
}

TEST_CASE("where no chunk helps, and for all else, NCCL's chunk stays") {
  const CommonInputs inputs = shape(4, 4);
  const auto chosen = [&](const ChunkRequest& requested) {
    return chosen_chunk_bytes(inputs, requested);
  };
  // Blocks of 4 MiB: 8 MiB in flight are two of them, which gains nothing.
  CHECK(chosen(request(TunedCollective::kAllGather, 64 * kMiB)) == 128 * kKiB);
  CHECK(chosen(request(TunedCollective::kAllGather, uint64_t{1} << 40U)) == 128 * kKiB);
  CHECK(chosen(request(TunedCollective::kAllGather, UINT64_MAX)) == 128 * kKiB);
  CHECK(chosen(request(TunedCollective::kAllGather, 0)) == 128 * kKiB);
  CHECK(chosen(request(TunedCollective::kAllGather, 8 * kMiB, 512 * kKiB)) == 512 * kKiB);
  CHECK(chosen(request(TunedCollective::kAllReduce, 20 * kMiB)) == 128 * kKiB);
  for (const Choice choice : {Choice::kNvls, Choice::kRing, Choice::kPat, Choice::kDefault}) {
    ChunkRequest other = request(TunedCollective::kAllGather, 20 * kMiB);
    other.choice = choice;
    CHECK(chosen(other) == 128 * kKiB);
  }
  ChunkRequest no_channels = request(TunedCollective::kAllGather, 20 * kMiB);
  no_channels.channels = 0;
  CHECK(chosen(no_channels) == 128 * kKiB);
  CHECK(chosen_chunk_bytes(shape(1, 4), request(TunedCollective::kAllGather, 20 * kMiB)) ==
        128 * kKiB);
}

TEST_CASE("chunks are multiples of 512, at most a slot, never less than NCCL's") {
  for (const uint32_t nodes : {2U, 3U, 7U}) {
    for (uint64_t bytes = 1; bytes < kGiB; bytes = bytes * 5 / 3 + 1) {
      CommonInputs inputs = shape(nodes, 3);
      inputs.buffer_bytes = 5'000'000;
      const uint64_t chunk =
          chosen_chunk_bytes(inputs, request(TunedCollective::kAllGather, bytes, 32 * kKiB));
      CAPTURE(nodes, bytes);
      CHECK(chunk % 512 == 0);
      CHECK(chunk >= 32 * kKiB);
      CHECK(chunk <= inputs.buffer_bytes / kSteps);
    }
  }
}

TEST_CASE("what is in flight counts our chunk only where NCCL asks for it") {
  CommonInputs inputs = shape(4, 4);
  const auto in_flight = [&](uint64_t bytes) {
    return in_flight_bytes(inputs, TunedCollective::kAllGather, Choice::kCollNetDirect, bytes);
  };
  // A head has 5 MiB, a channel 2.5: chunks of 128 KiB, 16 of them.
  CHECK(in_flight(20 * kMiB) == 2 * kMiB);
  inputs.sets_chunk_size = 1;
  CHECK(in_flight(20 * kMiB) == 3840 * kKiB);
  CHECK(in_flight_bytes(inputs, TunedCollective::kAllReduce, Choice::kCollNetDirect, 20 * kMiB) ==
        2 * kMiB);
}

}  // namespace ho::plugin
