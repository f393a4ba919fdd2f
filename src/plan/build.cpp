// Checks a request, then hands it to its algorithm's builder.
#include <limits>

#include "plan/builders.hpp"
#include "plan/op_writer.hpp"

namespace ho {
namespace {

// A rank's own plan has the chunks that it touches; the whole plan one for all pairs of ranks.
constexpr uint32_t kMaxAllToAllRanks = 16384;
constexpr uint32_t kMaxWholeAllToAllRanks = 4096;

Status check_all_to_all(const GroupMap& map, const PlanRequest& request, uint32_t most_ranks) {
  const std::string name = "all_to_all among " + std::to_string(map.world_size()) + " ranks: ";
  if (map.world_size() > most_ranks) {
    return {
        StatusCode::kUnsupported,
        name + "at most " + std::to_string(most_ranks) + " are possible; split the communicator"};
  }
  const uint64_t chunks = routed_chunk_count(map, request);
  constexpr uint64_t kMaxChunks = std::numeric_limits<uint32_t>::max();
  if (chunks > kMaxChunks) {
    return {StatusCode::kUnsupported,
            name + std::to_string(chunks) + " parts of blocks, at most " +
                std::to_string(kMaxChunks) +
                " are possible; use fewer rails (HORING_RAILS) or split the communicator"};
  }
  return {};
}

Status check_request(const GroupMap& map, const PlanRequest& request, RoutedChunks chunks) {
  if (static_cast<size_t>(request.algorithm) >= kAlgorithmCount ||
      static_cast<size_t>(request.collective) >= kCollectiveCount) {
    return invalid("a plan request with an unknown collective or algorithm");
  }
  if (request.collective == Collective::kAllToAll) {
    const bool own = chunks == RoutedChunks::kOwn;
    HORING_TRY(check_all_to_all(map, request, own ? kMaxAllToAllRanks : kMaxWholeAllToAllRanks));
  }
  if (has_root(request.collective) && request.root.at() >= map.world_size()) {
    return invalid(std::string(to_string(request.collective)) + " root " +
                   std::to_string(request.root.value()) + " is no rank of a world of " +
                   std::to_string(map.world_size()) + ": use 0 to " +
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

BuiltPlan build_checked(const GroupMap& map,
                        const PlanRequest& request,
                        GlobalRank rank,
                        RoutedChunks chunks) {
  if (map.world_size() == 1) {
    return build_alone(request);
  }
  // These have one builder for every algorithm: a block that goes from one rank to one rank has no
  // ring to take. Broadcast and reduce have one for all but direct.
  if (is_routed(request.collective)) {
    return build_routed(map, request, rank, chunks);
  }
  if (request.algorithm == Algorithm::kDirect) {
    return build_direct(map, request, rank);
  }
  if (request.collective == Collective::kBroadcast) {
    return build_rail_broadcast(map, request, rank);
  }
  if (request.collective == Collective::kReduce) {
    return build_rail_reduce(map, request, rank);
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

Result<BuiltPlan> build(const GroupMap& map,
                        const PlanRequest& request,
                        GlobalRank rank,
                        RoutedChunks chunks) {
  HORING_TRY(check_request(map, request, chunks));
  if (rank.at() >= map.world_size()) {
    return invalid("a plan for rank " + std::to_string(rank.value()) + " in a world of " +
                   std::to_string(map.world_size()));
  }
  BuiltPlan built = build_checked(map, request, rank, chunks);
  built.plan.collective = request.collective;
  built.plan.algorithm = request.algorithm;
  built.plan.root = has_root(request.collective) ? request.root : GlobalRank();
  return built;
}

}  // namespace

Result<BuiltPlan> build_plan(const GroupMap& map, const PlanRequest& request, GlobalRank rank) {
  return build(map, request, rank, RoutedChunks::kOwn);
}

Result<WholePlan> build_whole_plan(const GroupMap& map, const PlanRequest& request) {
  WholePlan whole;
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    HORING_ASSIGN(BuiltPlan built, build(map, request, GlobalRank(r), RoutedChunks::kAll));
    whole.ranks.push_back(std::move(built.mine));
    if (r == 0) {
      whole.plan = std::move(built.plan);
    }
  }
  return whole;
}

}  // namespace ho
