// Requests, words and messages.
#include "plan/plan.hpp"

#include <algorithm>

#include "catch.hpp"
#include "has.hpp"
#include "plan/op_graph.hpp"
#include "plan/print.hpp"
#include "plan/verify.hpp"

using namespace ho;

TEST_CASE("names are parsed and printed, and errors list what is allowed") {
  for (uint8_t a = 0; a < kAlgorithmCount; ++a) {
    const auto algorithm = static_cast<Algorithm>(a);
    CHECK(*parse_algorithm(to_string(algorithm)) == algorithm);
  }
  for (uint8_t c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    CHECK(*parse_collective(to_string(collective)) == collective);
  }
  const auto wrong = parse_algorithm("tree");
  REQUIRE_FALSE(wrong.ok());
  CHECK(has(wrong.status(), "'tree'"));
  CHECK(has(wrong.status(), "ring, multi_ring, hierarchical, ho_ring or direct"));
  CHECK(has(parse_collective("").status(), "broadcast"));
}

TEST_CASE("requests that cannot work are refused") {
  const GroupMap map = GroupMap::parse("2+3").value();
  const auto refused = [&](const PlanRequest& request, uint32_t rank) {
    const auto built = build_plan(map, request, GlobalRank(rank));
    return !built.ok() && built.status().code() == StatusCode::kInvalidArgument;
  };
  CHECK(refused({Collective::kAllGather, Algorithm::kMultiRing, 0, {}}, 0));
  CHECK(refused({Collective::kAllGather, Algorithm::kMultiRing, 3, {}}, 0));
  CHECK_FALSE(refused({Collective::kAllGather, Algorithm::kMultiRing, 2, {}}, 0));
  CHECK(refused({Collective::kBroadcast, Algorithm::kHoRing, 1, GlobalRank(5)}, 0));
  CHECK(refused({Collective::kGather, Algorithm::kHoRing, 1, GlobalRank(5)}, 0));
  CHECK(refused({static_cast<Collective>(8), Algorithm::kHoRing, 1, {}}, 0));
  CHECK(refused({Collective::kAllGather, Algorithm::kHoRing, 1, {}}, 5));
  CHECK(refused({Collective::kAllGather, static_cast<Algorithm>(9), 1, {}}, 0));
}

TEST_CASE("an all-to-all of more ranks or parts than there are numbers for is refused") {
  const PlanRequest request = {Collective::kAllToAll, Algorithm::kHoRing, 1, {}};
  const auto groups_of = [](uint32_t groups, uint32_t ranks) {
    return GroupMap::from_sizes(std::vector<uint32_t>(groups, ranks)).value();
  };
  const auto own = build_plan(groups_of(64, 257), request, GlobalRank(0));
  REQUIRE(own.status().code() == StatusCode::kUnsupported);
  CHECK(has(own.status(), "all_to_all among 16448 ranks: at most 16384"));
  const auto whole = build_whole_plan(groups_of(64, 65), request);
  REQUIRE(whole.status().code() == StatusCode::kUnsupported);
  CHECK(has(whole.status(), "all_to_all among 4160 ranks: at most 4096"));
  const auto parts = build_plan(groups_of(129, 127).with_rails(64), request, GlobalRank(0));
  REQUIRE(parts.status().code() == StatusCode::kUnsupported);
  CHECK(has(parts.status(), "HORING_RAILS"));
}

TEST_CASE("a rank's plan of an all-to-all has only the chunks that pass it") {
  constexpr uint32_t kGroups = 2048;
  constexpr uint32_t kRanks = 8;
  const GroupMap map = GroupMap::from_sizes(std::vector<uint32_t>(kGroups, kRanks)).value();
  const PlanRequest request = {Collective::kAllToAll, Algorithm::kHoRing, 1, {}};
  const BuiltPlan built = build_plan(map, request, GlobalRank(12345)).value();
  // Its own row and column of blocks, and what its group's others send along its rail.
  CHECK(built.plan.chunks.size() == 2 * map.world_size() - 1 + (kRanks - 1) * (kGroups - 1));
}

namespace {

// The rank's ops with the numbers that its chunks have in the whole plan.
RankPlan renumbered(const BuiltPlan& built, const WholePlan& whole) {
  RankPlan mine = built.mine;
  const auto& all = whole.plan.chunks;
  for (PlanOp& op : mine.ops) {
    for (ChunkIndex& chunk : op.chunks) {
      const auto found = std::find(all.begin(), all.end(), built.plan.chunks.at(chunk.at()));
      REQUIRE(found != all.end());
      chunk = ChunkIndex(static_cast<size_t>(found - all.begin()));
    }
  }
  return mine;
}

}  // namespace

TEST_CASE("one rank's plan is that rank's part of the whole") {
  for (const char* groups : {"2+3", "1+3", "3x2"}) {
    const GroupMap map = GroupMap::parse(groups).value();
    for (uint8_t kind = 0; kind < kCollectiveCount * kAlgorithmCount; ++kind) {
      const PlanRequest request = {static_cast<Collective>(kind / kAlgorithmCount),
                                   static_cast<Algorithm>(kind % kAlgorithmCount),
                                   1,
                                   GlobalRank(3)};
      const WholePlan whole = build_whole_plan(map, request).value();
      CHECK_FALSE(whole.plan.own_chunks);
      for (uint32_t r = 0; r < map.world_size(); ++r) {
        INFO(groups << " " << to_string(request.collective) << " rank " << r);
        const BuiltPlan built = build_plan(map, request, GlobalRank(r)).value();
        CHECK(built.plan.own_chunks == (request.collective == Collective::kAllToAll));
        CHECK((built.plan.own_chunks || built.plan.chunks == whole.plan.chunks));
        CHECK(built.plan.scratch_chunk_count == whole.plan.scratch_chunk_count);
        const RankPlan mine = renumbered(built, whole);
        REQUIRE(mine.ops.size() == whole.ranks[r].ops.size());
        for (size_t i = 0; i < mine.ops.size(); ++i) {
          CHECK(mine.ops[i].chunks == whole.ranks[r].ops[i].chunks);
          CHECK(print_op(whole.plan, mine, i) == print_op(whole.plan, whole.ranks[r], i));
        }
      }
    }
  }
}

TEST_CASE("a rejected plan is told by rule, rank, op and chunk") {
  const GroupMap map = GroupMap::parse("2x2").value();
  const PlanRequest request = {Collective::kReduceScatter, Algorithm::kHoRing, 1, {}};
  const WholePlan valid = build_whole_plan(map, request).value();
  SECTION("a chunk out of bounds is named") {
    WholePlan plan = valid;
    plan.ranks[1].ops[0].chunks = {ChunkIndex(77)};
    const Status status = verify(plan, map);
    CHECK(has(status, "reduce_scatter ho_ring: bounds: rank 1 op 0"));
    CHECK(has(status, "chunk 77 of 4"));
  }
  SECTION("chunks that are not in the order of their blocks are named") {
    WholePlan plan = valid;
    std::swap(plan.plan.chunks[0], plan.plan.chunks[1]);
    CHECK(has(verify(plan, map), "bounds: chunk 1 of block 0 stands behind one of a later block"));
  }
  SECTION("a receive without its send is named") {
    WholePlan plan = valid;
    plan.ranks[1].ops.pop_back();
    CHECK(has(verify(plan, map), "pairing: rank "));
  }
  SECTION("operations in no fixed order are named") {
    WholePlan plan = valid;
    plan.ranks[1].ops.back().deps.clear();
    const Status status = verify(plan, map);
    CHECK(has(status, "race: rank 1 op "));
    CHECK(has(status, "in no fixed order [chunk 1 (block 1), "));
  }
  SECTION("a sum that is not marked final is named") {
    WholePlan plan = valid;
    plan.ranks[1].ops.back().final_sum = false;
    CHECK(has(verify(plan, map), "completes the sum but is not marked final"));
  }
  SECTION("ranks that wait for each other are named") {
    // Two ranks that each send only after they have received.
    WholePlan plan;
    plan.plan.block_count = 2;
    plan.plan.chunks = {{0, 0, 1}, {1, 0, 1}};
    plan.plan.phase_names = {"all"};
    plan.plan.whole_ops = true;
    plan.ranks.resize(2);
    for (uint32_t r = 0; r < 2; ++r) {
      PlanOp recv;
      recv.kind = OpKind::kRecv;
      recv.peer = GlobalRank(1 - r);
      recv.chunks = {ChunkIndex(1 - r)};
      PlanOp send;
      send.peer = GlobalRank(1 - r);
      send.chunks = {ChunkIndex(r)};
      send.deps = {0};
      plan.ranks[r].ops = {recv, send};
    }
    const Status status = verify(plan, GroupMap::parse("1x2").value());
    CHECK(has(status, "cycle: rank "));
    CHECK(has(status, "which waits for the first"));
  }
  SECTION("bytes above what the algorithm may move are named") {
    // The flat ring is correct, but moves too much to be called ho_ring.
    WholePlan plan =
        build_whole_plan(map, {Collective::kAllGather, Algorithm::kRing, 1, {}}).value();
    CHECK(verify(plan, map).ok());
    plan.plan.algorithm = Algorithm::kHoRing;
    CHECK(has(verify(plan, map), "bytes: group 0: "));
  }
}

TEST_CASE("wild plans are refused without harm") {
  const GroupMap map = GroupMap::parse("1x2").value();
  WholePlan plan;
  plan.plan.collective = Collective::kAllReduce;
  plan.plan.block_count = 4000000000U;
  plan.ranks.resize(2);
  CHECK_FALSE(verify(plan, map).ok());
  plan.plan.block_count = 1;
  plan.plan.chunks = {{0, 0, 4000000000U}};
  CHECK_FALSE(verify(plan, map).ok());
  plan.plan.chunks = {{0, 0, 1}};
  CHECK_FALSE(verify(plan, map).ok());  // nothing arrives
  plan.ranks.resize(1);
  CHECK_FALSE(verify(plan, map).ok());
}

TEST_CASE("fractions are printed in lowest terms") {
  CHECK(fraction(3, 12) == "1/4");
  CHECK(fraction(0, 12) == "0");
  CHECK(fraction(12, 12) == "1");
  CHECK(fraction(24, 12) == "2");
  CHECK(fraction(0, 0) == "0");
}
