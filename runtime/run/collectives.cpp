#include "run/collectives.hpp"

#include <array>
#include <set>
#include <tuple>

namespace paro {
namespace {

// On 16 bytes of each of so many ranks.
ho::Status connect_one(const Shards& shards,
                       Act act,
                       Track track,
                       const CollectivesByTrack& by_track,
                       size_t ranks,
                       const Buffer& memory) {
  Collectives& over = *by_track[static_cast<size_t>(track)];
  constexpr size_t kFloats = 4;
  const std::vector<size_t> counts(ranks, kFloats);
  CollectiveOptions options = shards.transfer_options();
  options.stream = shards.operations(track).stream();
  constexpr ho::DType kType = ho::DType::kFloat32;
  std::byte* const all = memory.get();  // any part of it is this rank's
  std::byte* const mine = all + counts.size() * kFloats * sizeof(float);
  Pending pending;
  switch (act) {
    case Act::kGather:
      HORING_TRY(over.begin_all_gather(options, kType, mine, all, counts, pending));
      break;
    case Act::kReduceScatter:
      HORING_TRY(over.begin_reduce_scatter(options, kType, all, mine, counts, pending));
      break;
    default:
      HORING_TRY(over.begin_all_reduce(options, kType, all, kFloats, pending));
  }
  return over.join(pending, 0).status();
}

}  // namespace

ho::Status connect_collectives(Shards& shards, const StepPlan& plan) {
  std::set<std::tuple<Domain, Track, Act>> kinds;
  for (const Action& action : plan.actions) {
    if (is_collective(action.act) && action.act != Act::kAgree) {
      kinds.emplace(action.domain, action.track, action.act);
    }
  }
  constexpr uint64_t kBytesOfEach = 16;
  const uint64_t ranks = shards.domains->groups().world_size();
  Ledger uncounted(shards.ledger.memory());
  HORING_ASSIGN(const Buffer memory,
                uncounted.allocate(Purpose::kScratch, (ranks + 1) * kBytesOfEach));
  std::vector<Routes> all = shards.trained_routes;
  all.insert(all.end(), shards.frozen_routes.begin(), shards.frozen_routes.end());
  const auto connect =
      [&](Act act, Track track, const CollectivesByTrack& by_track, size_t of_ranks) {
        return connect_one(shards, act, track, by_track, of_ranks, memory)
            .with_context("connecting the ranks for " + std::string(to_string(act)));
      };
  for (const auto& [domain, track, act] : kinds) {
    for (const Routes& routes : all) {
      const std::vector<Route>& those = routes.of(domain);
      if (!those.empty() && those.front().over.front() != nullptr) {
        HORING_TRY(connect(act, track, those.front().over, those.front().counts.size()));
        break;
      }
    }
  }
  const CollectivesByTrack& over_world = shards.domains->over_world();
  return over_world.front() == nullptr
             ? ho::Status()
             : connect(Act::kAgree, Track::kReductions, over_world, ranks);
}

ho::Status start_gather(const Shards& shards,
                        const StepBuffers& buffers,
                        const Action& action,
                        ActionId id,
                        Transfer& transfer) {
  const bool frozen = action.content == Content::kFrozen;
  const Routes& routes = (frozen ? shards.frozen_routes : shards.trained_routes)[action.unit];
  const UnitState& unit = shards.units[action.unit];
  const Storage& held = frozen ? unit.frozen : unit.parameters;
  return transfer.gather(routes.of(action.domain),
                         held,
                         action.phase == Phase::kSyncP
                             ? ElementView(held)
                             : buffers.gathered(shards.config, id, action.content));
}

std::vector<ElementView> reduced_buffers(const Shards& shards,
                                         const StepBuffers& buffers,
                                         const Action& action,
                                         ActionId id) {
  std::vector<ElementView> buffers_of_units;
  for (const uint32_t unit : units_of(action)) {
    buffers_of_units.push_back(action.phase == Phase::kBackward
                                   ? buffers.output(shards, action, id, unit)
                                   : ElementView(shards.units[unit].sums));
  }
  return buffers_of_units;
}

ho::Status start_reduction(const Shards& shards,
                           const Action& action,
                           const std::vector<ElementView>& buffers_of_units,
                           Transfer& transfer) {
  const Routes& all =
      is_merged(action) ? shards.merged_routes.at(action.unit) : shards.trained_routes[action.unit];
  const auto& routes = all.of(action.domain);
  return action.act == Act::kAllReduce ? transfer.all_reduce(routes, buffers_of_units)
                                       : transfer.reduce_scatter(routes, buffers_of_units);
}

void add_gradients(Shards& shards,
                   const Action& action,
                   uint32_t unit,
                   const ElementView& gradients,
                   uint32_t micro_batches) {
  const ho::DType dtype = sent_dtype(shards.config);
  Storage& sums = shards.units[unit].sums;
  const Operations& operations = shards.operations(action.track);
  for (const Range& range : sums.ranges()) {
    operations.add(
        sums.dtype(), sums.at(range.begin), dtype, gradients.at(range.begin), range.count());
  }
  // A unit that shares these parameters comes before their own: theirs is the last part.
  const bool last = !action.shared && home_of(shards.config.units, action.unit) == action.unit;
  if (last && action.micro_batch + 1 == micro_batches) {
    sums.round_to(operations, dtype);
  }
}

ho::Status round_parameters(Shards& shards, const StepBuffers& buffers, const StepPlan& plan) {
  for (UnitState& unit : shards.units) {
    unit.sums.zero();
    for (const Range& range : unit.master().ranges()) {
      shards.ledger.operations().round(shards.config.parameter_dtype,
                                       unit.master().floats_at(range.begin),
                                       unit.parameters.at(range.begin),
                                       range.count());
    }
  }
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    const Action& action = plan.actions[id.at()];
    if (action.phase == Phase::kSyncP) {
      Transfer transfer(shards.ledger, shards.transfer_options());
      const ho::Status started = start_gather(shards, buffers, action, id, transfer);
      const ho::Status finished = transfer.finish();
      HORING_TRY((started.ok() ? finished : started).with_context(to_string(plan, action)));
    }
  }
  return {};
}

}  // namespace paro
