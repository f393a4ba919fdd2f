// Requests, words and messages.
#include "plan/plan.hpp"

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
  for (uint8_t c = 0; c < 4; ++c) {
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
  CHECK(refused({Collective::kAllGather, Algorithm::kHoRing, 1, {}}, 5));
  CHECK(refused({Collective::kAllGather, static_cast<Algorithm>(9), 1, {}}, 0));
}

TEST_CASE("one rank's plan is that rank's part of the whole") {
  const GroupMap map = GroupMap::parse("2+3").value();
  for (uint8_t a = 0; a < kAlgorithmCount; ++a) {
    const PlanRequest request = {Collective::kAllReduce, static_cast<Algorithm>(a), 2, {}};
    const WholePlan whole = build_whole_plan(map, request).value();
    for (uint32_t r = 0; r < map.world_size(); ++r) {
      const BuiltPlan mine = build_plan(map, request, GlobalRank(r)).value();
      CHECK(mine.plan.chunks == whole.plan.chunks);
      REQUIRE(mine.mine.ops.size() == whole.ranks[r].ops.size());
      for (size_t i = 0; i < mine.mine.ops.size(); ++i) {
        CHECK(print_op(mine.plan, mine.mine, i) == print_op(whole.plan, whole.ranks[r], i));
      }
    }
  }
}

TEST_CASE("a rejected plan is told by rule, rank, op and chunk") {
  const GroupMap map = GroupMap::parse("2x2").value();
  const PlanRequest request = {Collective::kReduceScatter, Algorithm::kHoRing, 1, {}};
  const WholePlan valid = build_whole_plan(map, request).value();
  SECTION("bounds") {
    WholePlan plan = valid;
    plan.ranks[1].ops[0].chunks = {ChunkIndex(77)};
    const Status status = verify(plan, map);
    CHECK(has(status, "reduce_scatter ho_ring: bounds: rank 1 op 0"));
    CHECK(has(status, "chunk 77 of 4"));
  }
  SECTION("pairing") {
    WholePlan plan = valid;
    plan.ranks[1].ops.pop_back();
    CHECK(has(verify(plan, map), "pairing: rank "));
  }
  SECTION("race") {
    WholePlan plan = valid;
    plan.ranks[1].ops.back().deps.clear();
    const Status status = verify(plan, map);
    CHECK(has(status, "race: rank 1 op "));
    CHECK(has(status, "in no fixed order [chunk 1 (block 1), "));
  }
  SECTION("contributions") {
    WholePlan plan = valid;
    plan.ranks[1].ops.back().final_sum = false;
    CHECK(has(verify(plan, map), "completes the sum but is not marked final"));
  }
  SECTION("cycle") {
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
  SECTION("bytes") {
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

TEST_CASE("fractions are reduced") {
  CHECK(fraction(3, 12) == "1/4");
  CHECK(fraction(0, 12) == "0");
  CHECK(fraction(12, 12) == "1");
  CHECK(fraction(24, 12) == "2");
  CHECK(fraction(0, 0) == "0");
}
