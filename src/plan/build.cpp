// Checks a request, then hands it to its algorithm's builder.
#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

Status invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

Status check_request(const GroupMap& map, const PlanRequest& request) {
  if (static_cast<size_t>(request.algorithm) >= kAlgorithmCount ||
      request.collective > Collective::kBroadcast) {
    return invalid("a plan request with an unknown collective or algorithm");
  }
  if (request.collective == Collective::kBroadcast && request.root.at() >= map.world_size()) {
    return invalid("broadcast root " + std::to_string(request.root.value()) +
                   " is no rank of a world of " + std::to_string(map.world_size()) + ": use 0 to " +
                   std::to_string(map.world_size() - 1));
  }
  if (request.algorithm == Algorithm::kMultiRing &&
      (request.ring_count == 0 || request.ring_count > map.rail_count())) {
    return invalid("multi_ring with " + std::to_string(request.ring_count) + " rings on groups " +
                   map.to_string() + ": use 1 to " + std::to_string(map.rail_count()) +
                   " (the rails)");
  }
  return {};
}

// A world of one: the result is the input.
BuiltPlan build_alone(const PlanRequest& request) {
  BuiltPlan built;
  built.plan.block_count = 1;
  built.plan.chunks = {Chunk{}};
  built.plan.phase_names = {"copy"};
  built.plan.whole_ops = request.algorithm == Algorithm::kDirect;
  PlanOp& op = built.mine.ops.emplace_back();
  op.kind = OpKind::kCopy;
  op.chunks = {ChunkIndex(0)};
  return built;
}

BuiltPlan build_checked(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  if (map.world_size() == 1) {
    return build_alone(request);
  }
  if (request.algorithm == Algorithm::kDirect) {
    return build_direct(map, request, rank);
  }
  if (request.collective == Collective::kBroadcast) {
    return build_rail_broadcast(map, request, rank);
  }
  switch (request.algorithm) {
    case Algorithm::kRing:
      return build_ring(map, request, rank);
    case Algorithm::kMultiRing:
      return build_multi_ring(map, request, rank);
    case Algorithm::kDirect:
    case Algorithm::kHierarchical:
    case Algorithm::kHoRing:
      break;
  }
  return build_two_level(map, request, rank);
}

}  // namespace

Result<BuiltPlan> build_plan(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  HORING_TRY(check_request(map, request));
  if (rank.at() >= map.world_size()) {
    return invalid("a plan for rank " + std::to_string(rank.value()) + " in a world of " +
                   std::to_string(map.world_size()));
  }
  BuiltPlan built = build_checked(map, request, rank);
  built.plan.collective = request.collective;
  built.plan.algorithm = request.algorithm;
  built.plan.root = request.collective == Collective::kBroadcast ? request.root : GlobalRank();
  return built;
}

Result<WholePlan> build_whole_plan(const GroupMap& map, const PlanRequest& request) {
  WholePlan whole;
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    HORING_ASSIGN(BuiltPlan built, build_plan(map, request, GlobalRank(r)));
    whole.ranks.push_back(std::move(built.mine));
    if (r == 0) {
      whole.plan = std::move(built.plan);
    }
  }
  return whole;
}

}  // namespace ho
