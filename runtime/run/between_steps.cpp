#include "run/between_steps.hpp"

#include "run/collectives.hpp"

namespace paro {

ho::Status BetweenSteps::may(const char* what) const {
  HORING_TRY(shards_.broken);
  if (progress_.scheduler().in_step()) {
    return {ho::StatusCode::kInvalidArgument,
            std::string(what) + " in the middle of a step: call it after step()"};
  }
  return {};
}

ho::Status BetweenSteps::load(uint32_t unit,
                              std::span<const float> trained,
                              std::span<const float> frozen) {
  HORING_TRY(may("load"));
  HORING_TRY(progress_.synchronize());  // on all ranks, though this one's arguments may be wrong
  const std::vector<UnitShape>& units = shards_.config.units;
  if (unit < units.size() && units[unit].shares) {
    // Nothing of it is kept or compared: it has no values.
    return trained.empty() && frozen.empty() ? ho::Status()
                                             : shares_another(shards_.config, "load", unit);
  }
  if (unit >= units.size() || trained.size() != units[unit].trained ||
      frozen.size() != units[unit].frozen) {
    return {ho::StatusCode::kInvalidArgument,
            "load: unit " + std::to_string(unit) + " with " + std::to_string(trained.size()) +
                " trained and " + std::to_string(frozen.size()) + " frozen elements" +
                (unit < units.size() ? ", where it has " + std::to_string(units[unit].trained) +
                                           " and " + std::to_string(units[unit].frozen)
                                     : ", of " + std::to_string(units.size()) + " units")};
  }
  put_whole(shards_, unit, trained, frozen);
  HORING_TRY(shards_.break_unless_ok(shards_.ledger.operations().finish(),
                                     "load of " + unit_name(shards_.config, unit)));
  agreement_.loads().note(shards_.config, unit, trained, frozen);
  return {};
}

ho::Status BetweenSteps::may_read(const char* what,
                                  uint32_t unit,
                                  uint64_t capacity,
                                  uint64_t UnitShape::*count) {
  HORING_TRY(may(what));
  HORING_TRY(progress_.synchronize());
  // Before this rank's own arguments are looked at: the others may have given right ones.
  HORING_TRY(agree_on_read(shards_, agreement_.loads(), what, unit, capacity));
  const std::vector<UnitShape>& units = shards_.config.units;
  if (unit < units.size() && capacity == units[unit].*count) {
    return {};
  }
  if (unit < units.size() && units[unit].shares) {
    return shares_another(shards_.config, what, unit);
  }
  const std::string requested = std::string(what) + ": ";
  if (unit >= units.size()) {
    return {ho::StatusCode::kInvalidArgument,
            requested + "there is no unit " + std::to_string(unit) + ", the last is " +
                std::to_string(units.size() - 1)};
  }
  return {ho::StatusCode::kInvalidArgument,
          requested + "room for " + std::to_string(capacity) + " elements of " +
              unit_name(shards_.config, unit) + ", which has " +
              std::to_string(units[unit].*count)};
}

ho::Status BetweenSteps::read(const char* what,
                              uint32_t unit,
                              const ShardOf& of,
                              std::span<float> values) {
  return shards_.break_unless_ok(read_whole(shards_, of, values),
                                 std::string(what) + " of " + unit_name(shards_.config, unit) +
                                     " after step " + std::to_string(steps()));
}

ho::Status BetweenSteps::read_masters(uint32_t unit, std::span<float> trained) {
  HORING_TRY(may_read("read_masters", unit, trained.size(), &UnitShape::trained));
  return read("read_masters", unit, masters_of(shards_, unit), trained);
}

ho::Status BetweenSteps::read_frozen(uint32_t unit, std::span<float> frozen) {
  HORING_TRY(may_read("read_frozen", unit, frozen.size(), &UnitShape::frozen));
  return read("read_frozen", unit, frozen_of(shards_, unit), frozen);
}

ho::Status BetweenSteps::check_drift() {
  HORING_TRY(may("check_drift"));
  HORING_TRY(progress_.synchronize());
  const std::string after = "after step " + std::to_string(steps());
  const auto difference = difference_of_copies(shards_);
  HORING_TRY(shards_.break_unless_ok(difference.status(), "comparing copies of states " + after));
  return difference->empty()
             ? ho::Status()
             : shards_.break_on_all(
                   after + " copies of the same state differ: " + *difference +
                   "; load a checkpoint, and look for a computation that ranks did differently");
}

ho::Result<Snapshot> BetweenSteps::snapshot_without_units() {
  HORING_TRY(may("save"));
  HORING_TRY(progress_.end_last_step());
  updater_.follow_scale();
  Snapshot snapshot;
  updater_.write_to(snapshot);
  snapshot.called_steps = progress_.scheduler().step().value;
  snapshot.loads = agreement_.loads().hashes(shards_.units.size());
  return snapshot;
}

ho::Result<Snapshot> BetweenSteps::snapshot() {
  HORING_ASSIGN(Snapshot snapshot, snapshot_without_units());
  snapshot.units = snapshot_units(shards_);
  HORING_TRY(shards_.ledger.operations().finish());
  HORING_TRY(shards_.domains->status());  // what a stream had may not have been done
  return snapshot;
}

ho::Status BetweenSteps::restore(const ho::Result<Snapshot>& input, uint64_t timeout_ms) {
  HORING_TRY(may("restore"));
  HORING_TRY(progress_.synchronize());
  HORING_TRY(agree_on_snapshot(shards_, input, timeout_ms));
  const Snapshot& snapshot = *input;
  LossScale scale = updater_.scale();
  HORING_TRY(scale.restore(snapshot.loss_scale));  // before anything has changed
  const std::string what = "restoring states of step " + std::to_string(snapshot.applied_steps);
  for (size_t u = 0; u < shards_.units.size(); ++u) {
    HORING_TRY(shards_.break_unless_ok(spread(shards_, u, snapshot.units[u]),
                                       what + ", " + unit_name(shards_.config, u)));
  }
  HORING_TRY(updater_.restore(snapshot, shards_));
  progress_.go_on_from({snapshot.called_steps});
  agreement_.loads().forget();
  return shards_.break_unless_ok(
      round_parameters(shards_, progress_.buffers(), progress_.scheduler().plan()), what);
}

ho::Result<OwnedComm> BetweenSteps::new_communicator(const char* what, uint64_t timeout_ms) {
  HORING_TRY(may(what));
  HORING_TRY(progress_.end_last_step());  // what ranks tell each other of it goes first
  if (ho_comm* const world = shards_.domains->world(); world != nullptr) {
    // ho_comm_split knows of no timeout but that of connecting.
    HORING_TRY(
        shards_.break_unless_ok(barrier(world, timeout_ms), "waiting for all ranks between steps"));
  }
  return shards_.domains->another_world();
}

}  // namespace paro
