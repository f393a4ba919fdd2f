// The routes of all-to-all, gather and scatter, and the chain of a reduce: what verify() does not
// hold by itself, and what it must see.
#include <algorithm>
#include <set>

#include "catch.hpp"
#include "has.hpp"
#include "plan/plan.hpp"
#include "plan/summary.hpp"
#include "plan/verify.hpp"
#include "shapes.hpp"

using namespace ho;

namespace {

constexpr Collective kRouted[] = {Collective::kAllToAll, Collective::kGather, Collective::kScatter};

std::vector<test::Shape> shapes_and_fewer_rails() {
  std::vector<test::Shape> shapes;
  for (const auto& shape : test::all_shapes()) {
    for (uint32_t rails = 1; rails <= shape.map.rail_count(); ++rails) {
      if (shape.map.world_size() <= 16) {
        shapes.push_back(
            {shape.name + " on " + std::to_string(rails) + " rails", shape.map.with_rails(rails)});
      }
    }
  }
  return shapes;
}

std::set<GlobalRank> peers_in_other_groups(const RankPlan& ops) {
  std::set<GlobalRank> peers;
  for (const PlanOp& op : ops.ops) {
    if (op.kind != OpKind::kCopy && op.lane == Lane::kInter) {
      peers.insert(op.peer);
    }
  }
  return peers;
}

uint64_t chunks_in_scratch(const RankPlan& ops) {
  std::set<ChunkIndex> chunks;
  for (const PlanOp& op : ops.ops) {
    if (op.kind != OpKind::kSend && op.dst == Space::kScratch) {
      chunks.insert(op.chunks.begin(), op.chunks.end());
    }
  }
  return chunks.size();
}

WholePlan plan_of(const GroupMap& map, Collective collective, uint32_t root, Algorithm algorithm) {
  return build_whole_plan(map, {collective, algorithm, 1, GlobalRank(root)}).value();
}

// The only send of that kind that the rank has on the inter lane, or inside its group.
PlanOp& first_send(WholePlan& plan, uint32_t rank, Lane lane) {
  auto& ops = plan.ranks[rank].ops;
  const auto send = std::find_if(ops.begin(), ops.end(), [&](const PlanOp& op) {
    return op.kind == OpKind::kSend && op.lane == lane;
  });
  REQUIRE(send != ops.end());
  return *send;
}

}  // namespace

TEST_CASE("a rank has no more connections between groups than there are other groups") {
  for (const auto& shape : shapes_and_fewer_rails()) {
    for (const Collective collective : kRouted) {
      for (const Algorithm algorithm : {Algorithm::kHoRing, Algorithm::kDirect}) {
        const WholePlan plan =
            plan_of(shape.map, collective, shape.map.world_size() - 1, algorithm);
        for (const RankPlan& ops : plan.ranks) {
          INFO(shape.name << " " << to_string(collective) << " " << to_string(algorithm));
          CHECK(peers_in_other_groups(ops).size() < shape.map.group_count());
        }
      }
    }
  }
}

TEST_CASE("the rails of a group carry the same, extra ranks or not") {
  for (const auto& shape : shapes_and_fewer_rails()) {
    for (const Collective collective : kRouted) {
      const WholePlan plan = plan_of(shape.map, collective, 0, Algorithm::kHoRing);
      const PlanSummary summary = summarize(plan, shape.map, GlobalRank(0)).value();
      for (const auto& rails : summary.traffic.rails) {
        for (const Flow& rail : rails) {
          INFO(shape.name << " " << to_string(collective));
          CHECK(rail.out == rails.front().out);
          CHECK(rail.in == rails.front().in);
        }
      }
    }
  }
}

TEST_CASE("no rank has more chunks in scratch than the plan says, and one has as many") {
  for (const auto& shape : shapes_and_fewer_rails()) {
    for (uint8_t c = 0; c < kCollectiveCount; ++c) {
      for (uint32_t root = 0; root < shape.map.world_size(); ++root) {
        const auto collective = static_cast<Collective>(c);
        if (root > 0 && !has_root(collective)) {
          continue;
        }
        const WholePlan plan = plan_of(shape.map, collective, root, Algorithm::kHoRing);
        uint64_t most = 0;
        for (const RankPlan& ops : plan.ranks) {
          most = std::max(most, chunks_in_scratch(ops));
        }
        INFO(shape.name << " " << to_string(collective) << " root " << root);
        CHECK(most <= plan.plan.scratch_chunk_count);
        if (collective == Collective::kAllToAll) {
          CHECK(most == plan.plan.scratch_chunk_count);
        }
      }
    }
  }
}

TEST_CASE("an all-to-all of whole messages has few of them between two ranks") {
  const GroupMap map = GroupMap::parse("4x4").value();
  const WholePlan plan = plan_of(map, Collective::kAllToAll, 0, Algorithm::kDirect);
  const PlanSummary summary = summarize(plan, map, GlobalRank(5)).value();
  for (const LinkShare& link : summary.links) {
    // Between groups: this rank's own blocks, and those of its group's others. Inside: what goes to
    // three other groups over the peer's rail, and the block that is the peer's.
    CHECK(link.messages.out == (link.lane == Lane::kInter ? 2 : 4));
  }
}

TEST_CASE("a block that takes another route than the least is rejected") {
  // In pairs of groups of one rank each, the block from rank 0 to rank 2 goes by way of rank 1.
  const GroupMap map = GroupMap::parse("3x1").value();
  WholePlan plan = plan_of(map, Collective::kAllToAll, 0, Algorithm::kHoRing);
  REQUIRE(verify(plan, map).ok());
  PlanOp forward = first_send(plan, 0, Lane::kInter);
  for (PlanOp& op : plan.ranks[0].ops) {
    if (op.kind == OpKind::kSend && op.peer == GlobalRank(2)) {
      op.peer = GlobalRank(1);
      forward = op;
    }
  }
  std::erase_if(plan.ranks[2].ops, [&](const PlanOp& op) {
    return op.kind == OpKind::kRecv && op.chunks == forward.chunks;
  });
  auto& way = plan.ranks[1].ops;
  PlanOp received = forward;
  received.kind = OpKind::kRecv;
  received.peer = GlobalRank(0);
  received.src = received.dst = Space::kScratch;
  way.push_back(received);
  forward.src = forward.dst = Space::kScratch;
  forward.peer = GlobalRank(2);
  forward.deps = {static_cast<uint32_t>(way.size() - 1)};
  way.push_back(forward);
  PlanOp ends = received;
  ends.peer = GlobalRank(1);
  ends.src = ends.dst = Space::kOutput;
  plan.ranks[2].ops.push_back(ends);
  const Status status = verify(plan, map);
  INFO(status.to_string());
  CHECK(has(status, "bytes: group 1: "));
}

TEST_CASE("a rail that carries another one's blocks is rejected") {
  const GroupMap map = GroupMap::parse("2x2").value();
  WholePlan plan = plan_of(map, Collective::kAllToAll, 0, Algorithm::kHoRing);
  for (const uint32_t rank : {0U, 2U}) {
    for (PlanOp& op : plan.ranks[rank].ops) {
      if (op.kind != OpKind::kCopy && op.lane == Lane::kInter) {
        op.rail = RailIndex(1);
      }
    }
  }
  const Status status = verify(plan, map);
  INFO(status.to_string());
  CHECK(has(status, "bytes: group 0: "));
  CHECK(has(status, "rail 1 carries "));
}

TEST_CASE("a block that is missing, or lands with another rank, is rejected") {
  const GroupMap map = GroupMap::parse("2x2").value();
  for (const Collective collective : kRouted) {
    const WholePlan valid = plan_of(map, collective, 3, Algorithm::kHoRing);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      for (uint32_t i = 0; i < valid.ranks[rank].ops.size(); ++i) {
        INFO(to_string(collective) << " rank " << rank << " op " << i);
        WholePlan plan = valid;
        PlanOp& op = plan.ranks[rank].ops[i];
        op.chunks = {ChunkIndex((op.chunks.front().value() + 1) % plan.plan.chunks.size())};
        CHECK_FALSE(verify(plan, map).ok());
      }
    }
  }
}

TEST_CASE("a contribution that a reduce counts twice, or not at all, is rejected") {
  const GroupMap map = GroupMap::parse("2x2").value();
  for (const Algorithm algorithm : {Algorithm::kHoRing, Algorithm::kDirect}) {
    const WholePlan valid = plan_of(map, Collective::kReduce, 0, algorithm);
    REQUIRE(verify(valid, map).ok());
    for (uint32_t rank = 0; rank < 4; ++rank) {
      for (uint32_t i = 0; i < valid.ranks[rank].ops.size(); ++i) {
        if (valid.ranks[rank].ops[i].kind != OpKind::kRecvReduce) {
          continue;
        }
        INFO(to_string(algorithm) << " rank " << rank << " op " << i);
        WholePlan plan = valid;
        PlanOp& op = plan.ranks[rank].ops[i];
        op.src = op.src == Space::kInput ? Space::kScratch : Space::kInput;
        CHECK_FALSE(verify(plan, map).ok());
        plan = valid;
        plan.ranks[rank].ops[i].kind = OpKind::kRecv;
        CHECK_FALSE(verify(plan, map).ok());
      }
    }
  }
}

TEST_CASE("blocks of a role that no rank can have are rejected") {
  const GroupMap map = GroupMap::parse("1x2").value();
  WholePlan plan = plan_of(map, Collective::kAllToAll, 0, Algorithm::kHoRing);
  REQUIRE(plan.plan.block_count == 4);
  plan.plan.block_roles = {{GlobalRank(0), GlobalRank(0)},
                           {GlobalRank(0), GlobalRank(1)},
                           {GlobalRank(1), GlobalRank(0)},
                           {GlobalRank(1), GlobalRank(1)}};
  CHECK(verify(plan, map).ok());
  std::swap(plan.plan.block_roles[1], plan.plan.block_roles[2]);
  CHECK_FALSE(verify(plan, map).ok());
  plan.plan.block_roles[1] = {GlobalRank(0), GlobalRank(2)};
  CHECK(has(verify(plan, map), "goes to 2, which is no rank"));
}
