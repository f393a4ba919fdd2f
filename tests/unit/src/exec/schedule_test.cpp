// In which order a run looks at its queues.
#include "exec/schedule.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "silent_link.hpp"

namespace ho {
namespace {

std::string kind_of(const QueueLayout& queue) {
  if (queue.link == nullptr) {
    return "copies";
  }
  return std::string(to_string(queue.lane)) + (queue.sends ? " sends" : " receives");
}

// The kinds of queues in their order, neighbours of one kind as one.
std::vector<std::string> kinds(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const QueueLayout& queue : schedule.queues) {
    if (names.empty() || names.back() != kind_of(queue)) {
      names.push_back(kind_of(queue));
    }
  }
  return names;
}

TEST_CASE("queues between groups come first, sends before receives, copies last") {
  const GroupMap map = GroupMap::parse("3x3").value();
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    for (uint32_t rank = 0; rank < map.world_size(); ++rank) {
      PlanRequest request;
      request.collective = collective;
      BuiltPlan built = build_plan(map, request, GlobalRank(rank)).value();
      test::SilentLink link;
      const auto schedule = make_schedule(
          std::move(built), [&](GlobalRank, Lane, RailIndex) -> Result<Link*> { return &link; });
      REQUIRE(schedule.ok());
      std::vector<std::string> want{
          "inter sends", "inter receives", "intra sends", "intra receives"};
      const std::vector<std::string> got = kinds(**schedule);
      if (got.size() > want.size()) {
        want.emplace_back("copies");
      }
      INFO(to_string(collective) << " rank " << rank);
      CHECK(got == want);
    }
  }
}

// Copies and queues inside the group stand first in the list of ops here.
TEST_CASE("the order of queues is not that of the plan's ops") {
  const auto op = [](OpKind kind, Lane lane) {
    PlanOp made;
    made.kind = kind;
    made.lane = lane;
    made.peer = GlobalRank(1);
    made.chunks = {ChunkIndex(0)};
    return made;
  };
  BuiltPlan built;
  built.plan.chunks = {Chunk{}};
  built.mine.ops = {op(OpKind::kCopy, Lane::kIntra),
                    op(OpKind::kRecv, Lane::kIntra),
                    op(OpKind::kSend, Lane::kIntra),
                    op(OpKind::kRecv, Lane::kInter),
                    op(OpKind::kSend, Lane::kInter)};
  test::SilentLink link;
  const auto schedule = make_schedule(
      std::move(built), [&](GlobalRank, Lane, RailIndex) -> Result<Link*> { return &link; });
  REQUIRE(schedule.ok());
  CHECK(kinds(**schedule) ==
        std::vector<std::string>{
            "inter sends", "inter receives", "intra sends", "intra receives", "copies"});
}

}  // namespace
}  // namespace ho
