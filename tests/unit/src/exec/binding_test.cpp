// What a binding makes of a plan: which rail carries how much, and how much scratch there is.
#include "exec/binding.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

BuiltPlan built_for(const GroupMap& map,
                    Collective collective,
                    Algorithm algorithm,
                    GlobalRank rank) {
  PlanRequest request;
  request.collective = collective;
  request.algorithm = algorithm;
  request.ring_count = map.rail_count();
  return build_plan(map, request, rank).value();
}

// Of the rank, with `count` elements in every block.
Call call_for(const BuiltPlan& built, const GroupMap& map, GlobalRank rank, uint64_t count) {
  Call call;
  call.collective = built.plan.collective;
  call.algorithm = built.plan.algorithm;
  call.block_counts = BlockCounts(count);
  call.self = rank;
  call.world_size = map.world_size();
  return call;
}

// By rail: what the rank sends between groups.
std::map<uint32_t, uint64_t> inter_sent_bytes(const GroupMap& map,
                                              Collective collective,
                                              GlobalRank rank,
                                              uint64_t count) {
  const BuiltPlan built = built_for(map, collective, Algorithm::kHoRing, rank);
  const Binding binding(built.plan, built.mine, call_for(built, map, rank, count), {});
  std::map<uint32_t, uint64_t> bytes;
  for (const PlanOp& op : built.mine.ops) {
    if (op.kind == OpKind::kSend && op.lane == Lane::kInter) {
      for (uint32_t piece = 0; piece < binding.op_pieces(op); ++piece) {
        bytes[op.rail.value()] += binding.wire_bytes(op, piece);
      }
    }
  }
  return bytes;
}

TEST_CASE("extra ranks' blocks burden all rails of a group equally") {
  constexpr uint64_t kCount = 60000;  // every rail count here divides it
  for (const char* groups : {"2+3", "1+3", "2+5", "3+4+8", "4x4"}) {
    const GroupMap map = GroupMap::parse(groups).value();
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
      for (uint32_t g = 0; g < map.group_count(); ++g) {
        std::map<uint32_t, uint64_t> of_group;
        for (const GlobalRank rank : map.members(GroupIndex(g))) {
          for (const auto& [rail, bytes] : inter_sent_bytes(map, collective, rank, kCount)) {
            of_group[rail] += bytes;
          }
        }
        REQUIRE(of_group.size() == map.rail_count());
        for (const auto& [rail, bytes] : of_group) {
          INFO(groups << " " << to_string(collective) << " group " << g << " rail " << rail);
          CHECK(bytes == of_group[0]);
        }
      }
    }
  }
}

TEST_CASE("a chunk's pieces are its elements, no more and no less") {
  const GroupMap map = GroupMap::parse("2+3").value();
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{2049}, uint64_t{60001}}) {
    const BuiltPlan built =
        built_for(map, Collective::kAllGather, Algorithm::kHoRing, GlobalRank(2));
    const Binding binding(built.plan, built.mine, call_for(built, map, GlobalRank(2), count), {});
    uint64_t elements = 0;
    for (uint32_t chunk = 0; chunk < built.plan.chunks.size(); ++chunk) {
      for (uint32_t piece = 0; binding.piece_elements(ChunkIndex(chunk), piece) > 0; ++piece) {
        elements += binding.piece_elements(ChunkIndex(chunk), piece);
      }
    }
    CHECK(elements == count * map.world_size());
  }
}

TEST_CASE("the blocks of an all-to-all lie in the order of ranks, and are cut the same on all") {
  const GroupMap map = GroupMap::parse("2+3").value();
  const uint32_t world = map.world_size();
  std::vector<uint64_t> counts;  // of block s * world + t
  for (uint32_t block = 0; block < world * world; ++block) {
    counts.push_back(block == 0 ? 500'000 : 7 * block % 11);
  }
  std::vector<std::byte> input(600'000);
  std::vector<std::byte> output(input.size());
  std::set<uint64_t> pieces;
  for (uint32_t r = 0; r < world; ++r) {
    const GlobalRank self(r);
    const BuiltPlan built = built_for(map, Collective::kAllToAll, Algorithm::kHoRing, self);
    Call call = call_for(built, map, self, 0);
    call.block_counts = BlockCounts(counts);
    call.dtype = DType::kUint8;
    call.input = input.data();
    call.output = output.data();
    const Binding binding(built.plan, built.mine, call, {});
    pieces.insert(binding.largest_piece_bytes());
    uint64_t sent = 0;
    uint64_t received = 0;
    for (uint32_t c = 0; c < built.plan.chunks.size(); ++c) {
      const Chunk& chunk = built.plan.chunks[c];
      const uint64_t begin = counts[chunk.block] * chunk.part / chunk.parts;
      const uint64_t end = counts[chunk.block] * (chunk.part + 1) / chunk.parts;
      if (chunk.block / world == r) {
        CHECK(binding.address(Space::kInput, ChunkIndex(c), 0) == input.data() + sent);
        sent += end - begin;
      }
      if (chunk.block % world == r) {
        CHECK(binding.address(Space::kOutput, ChunkIndex(c), 0) == output.data() + received);
        received += end - begin;
      }
    }
    CHECK(sent == std::accumulate(&counts[r * world], &counts[r * world] + world, uint64_t{0}));
  }
  CHECK(pieces.size() == 1);
}

struct ScratchUse {
  uint64_t most_bytes = 0;  // of any rank
  uint32_t passes = 0;
};

ScratchUse scratch_use(const GroupMap& map,
                       const BindingLimits& limits,
                       Algorithm algorithm,
                       Collective collective,
                       bool fp32_sums) {
  ScratchUse use;
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    const GlobalRank rank(r);
    const BuiltPlan built = built_for(map, collective, algorithm, rank);
    Call call = call_for(built, map, rank, 1'000'003);
    call.dtype = fp32_sums ? DType::kBfloat16 : DType::kFloat32;
    call.fp32_sums = fp32_sums;
    const Binding binding(built.plan, built.mine, call, limits);
    use.most_bytes = std::max(use.most_bytes, binding.scratch_bytes());
    use.passes = binding.pass_count();
  }
  return use;
}

TEST_CASE("scratch stays within its limit, and uses it") {
  for (const char* groups : {"2x2", "3x2", "1x4", "4x1", "2+3", "3+4+8"}) {
    const GroupMap map = GroupMap::parse(groups).value();
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kMultiRing, Algorithm::kHierarchical, Algorithm::kHoRing}) {
      for (const Collective collective : {Collective::kReduceScatter, Collective::kAllReduce}) {
        for (const bool fp32_sums : {false, true}) {
          for (const uint64_t piece : {uint64_t{0}, uint64_t{1024}, uint64_t{4104}}) {
            BindingLimits limits;
            limits.piece_bytes = piece;
            limits.scratch_bytes = 65536;
            const ScratchUse use = scratch_use(map, limits, algorithm, collective, fp32_sums);
            INFO(groups << " " << to_string(algorithm) << " " << to_string(collective)
                        << (fp32_sums ? " fp32_sums" : "") << ", pieces of " << piece << " bytes");
            CHECK(use.most_bytes <= limits.scratch_bytes);
            CHECK(use.most_bytes > 0);
            CHECK(use.passes > 1);
          }
        }
      }
    }
  }
}

TEST_CASE("sums of device data run in windows of four pieces") {
  const GroupMap map = GroupMap::parse("4x4").value();
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllReduce}) {
    const BuiltPlan built = built_for(map, collective, Algorithm::kHoRing, GlobalRank(0));
    for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 24, uint64_t{1} << 27}) {
      BindingLimits limits;
      limits.device = true;
      const Binding binding(
          built.plan, built.mine, call_for(built, map, GlobalRank(0), count), limits);
      INFO(to_string(collective) << " of " << count << " elements a block");
      CHECK(binding.pass_pieces() == 4);
      CHECK(binding.scratch_bytes() + binding.device_scratch_bytes() <= limits.scratch_bytes);
      // The all-gather of an all-reduce lags behind its sums.
      CHECK(binding.turn_count() ==
            binding.pass_count() + (collective == Collective::kAllReduce ? 2 : 0));
    }
  }
}

}  // namespace
}  // namespace ho
