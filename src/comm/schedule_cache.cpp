#include "comm/schedule_cache.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "plan/verify.hpp"

namespace ho {
namespace {

// Ranks that build different plans would only time out later; small worlds are proven here.
Status verify_in_debug_builds([[maybe_unused]] const GroupMap& map,
                              [[maybe_unused]] const PlanRequest& request) {
#ifdef HORING_VERIFY_PLANS
  constexpr uint32_t kLargestWorld = 64;
  if (map.world_size() <= kLargestWorld) {
    HORING_ASSIGN(const WholePlan whole, build_whole_plan(map, request));
    return verify(whole, map);
  }
#endif
  return {};
}

}  // namespace

Result<std::shared_ptr<const Schedule>> ScheduleCache::lay_out(BuiltPlan built, uint8_t channel) {
  return engine_.exclusively([&](ShmTransport& shm, Transport* network) {
    return make_schedule(std::move(built), [&](GlobalRank peer, Lane lane, RailIndex rail) {
      if (lane == Lane::kIntra && placement_.same_host(self_, peer)) {
        return device_.staged(peer, shm.link({peer, RailIndex(0), communicator_, channel}));
      }
      if (network == nullptr) {
        return Result<Link*>(
            Status(StatusCode::kInternal,
                   fmt::format("no network for the link to rank {}", peer.value())));
      }
      if (lane == Lane::kIntra) {
        // A group may span hosts; both ends of such a link take the lower rank's rail.
        rail = placement_.map.rail_of(std::min(self_, peer)).value_or(RailIndex(0));
      }
      return device_.staged(peer, network->link({peer, rail, communicator_, channel}));
    });
  });
}

Result<std::shared_ptr<const Schedule>> ScheduleCache::schedule_for(Collective collective,
                                                                    Algorithm algorithm,
                                                                    GlobalRank root,
                                                                    uint8_t channel) {
  const Key key{collective, algorithm, has_root(collective) ? root : GlobalRank(0), channel};
  if (const auto found = schedules_.find(key); found != schedules_.end()) {
    return found->second;
  }
  const PlanRequest request{collective, algorithm, placement_.ring_count(), key.root};
  HORING_TRY(verify_in_debug_builds(placement_.map, request));
  HORING_ASSIGN(BuiltPlan built, build_plan(placement_.map, request, self_));
  HORING_ASSIGN(auto schedule, lay_out(std::move(built), key.channel));
  schedules_.emplace(key, schedule);
  return schedule;
}

}  // namespace ho
