#include "planner/sent_bytes.hpp"

#include "cost/step_time.hpp"
#include "planner/batch.hpp"

namespace paro {
namespace {

using Over = LevelBytes::Over;

StepVolumes& operator+=(StepVolumes& sum, const StepVolumes& more) {
  sum.gathered += more.gathered;
  sum.reduced += more.reduced;
  sum.gradients += more.gradients;
  sum.updated += more.updated;
  return sum;
}

StepVolumes volumes_of(const UnitSize& unit, const BytesPerParameter& bytes, Over over) {
  const StepVolumes usual = step_volumes({unit.parameters, unit.trainable}, bytes);
  const UnitMessages& own = unit.messages;
  const double gathers = own.stays_gathered ? 1 : 2;
  StepVolumes volumes;
  volumes.gathered = own.gathered.value_or(usual.gathered / 2) * gathers;
  volumes.reduced = own.reduced.value_or(usual.reduced);
  volumes.updated = own.updated.value_or(usual.updated);
  if (over == Over::kOthers) {
    volumes.reduced = own.reduced_between.value_or(volumes.reduced);
    volumes.updated = own.updated_between.value_or(volumes.updated);
  }
  volumes.gradients = volumes.reduced;
  return volumes;
}

// Units that share another's parameters are in the model's size, not in the list.
StepVolumes volumes_of(const PlannerRequest& request, Over over) {
  if (request.units.empty() || request.sharing_units > 0) {
    return step_volumes(request.model, request.bytes);
  }
  StepVolumes sum;
  for (const UnitSize& unit : request.units) {
    sum += volumes_of(unit, request.bytes, over);
  }
  return sum;
}

}  // namespace

SentBytes sent_bytes(const Strategy& strategy, const PlannerRequest& request) {
  const PlannerRequest chosen = with_batch(strategy, request);
  const auto sent = [&](Over over) {
    const StepVolumes volumes = volumes_of(chosen, over);
    return level_bytes(strategy, volumes, chosen.world, chosen.links, over)
        .communication(chosen.micro_batches);
  };
  return {sent(Over::kInnermost), sent(Over::kOthers)};
}

}  // namespace paro
