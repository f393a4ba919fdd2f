// What is called between steps: states are read, loaded, compared, saved and restored, and the
// ranks come together again after an error.
#include "run/collectives.hpp"
#include "run/step_runner.hpp"

namespace paro {

ho::Status StepRunner::between_steps(const char* what) const {
  HORING_TRY(broken());
  if (scheduler_.in_step()) {
    return {ho::StatusCode::kInvalidArgument,
            std::string(what) + " in the middle of a step: call it after step()"};
  }
  return {};
}

void StepRunner::set_learning_rate(double rate) {
  std::visit([rate](auto& rule) { rule.learning_rate = rate; }, shards_.config.rule);
}

ho::Status StepRunner::load(uint32_t unit,
                            std::span<const float> trained,
                            std::span<const float> frozen) {
  HORING_TRY(between_steps("load"));
  const std::vector<UnitShape>& units = config().units;
  if (unit < units.size() && units[unit].shares) {
    // Nothing of it is kept or compared: it has no values.
    return trained.empty() && frozen.empty() ? ho::Status()
                                             : shares_another(config(), "load", unit);
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
  HORING_TRY(synchronize());
  put_whole(shards_, unit, trained, frozen);
  loads_.note(config(), unit, trained, frozen);
  return {};
}

ho::Status StepRunner::may_read(const char* what,
                                uint32_t unit,
                                uint64_t capacity,
                                uint64_t UnitShape::*count) {
  HORING_TRY(between_steps(what));
  HORING_TRY(synchronize());
  // Before this rank's own arguments are looked at: the others may have given right ones.
  HORING_TRY(agree_on_read(shards_, loads_, what, unit, capacity));
  const std::vector<UnitShape>& units = config().units;
  if (unit < units.size() && capacity == units[unit].*count) {
    return {};
  }
  if (unit < units.size() && units[unit].shares) {
    return shares_another(config(), what, unit);
  }
  const std::string requested = std::string(what) + ": ";
  if (unit >= units.size()) {
    return {ho::StatusCode::kInvalidArgument,
            requested + "there is no unit " + std::to_string(unit) + ", the last is " +
                std::to_string(units.size() - 1)};
  }
  return {ho::StatusCode::kInvalidArgument,
          requested + "room for " + std::to_string(capacity) + " elements of " +
              unit_name(config(), unit) + ", which has " + std::to_string(units[unit].*count)};
}

ho::Status StepRunner::read(const char* what,
                            uint32_t unit,
                            const ShardOf& of,
                            std::span<float> values) {
  return shards_.break_unless_ok(read_whole(shards_, of, values),
                                 std::string(what) + " of " + unit_name(config(), unit) +
                                     " after step " + std::to_string(steps()));
}

ho::Status StepRunner::read_masters(uint32_t unit, std::span<float> trained) {
  HORING_TRY(may_read("read_masters", unit, trained.size(), &UnitShape::trained));
  return read("read_masters", unit, masters_of(shards_, unit), trained);
}

ho::Status StepRunner::read_frozen(uint32_t unit, std::span<float> frozen) {
  HORING_TRY(may_read("read_frozen", unit, frozen.size(), &UnitShape::frozen));
  return read("read_frozen", unit, frozen_of(shards_, unit), frozen);
}

ho::Status StepRunner::check_drift() {
  HORING_TRY(between_steps("check_drift"));
  HORING_TRY(synchronize());
  const std::string after = "after step " + std::to_string(steps());
  const auto difference = difference_of_copies(shards_);
  HORING_TRY(shards_.break_unless_ok(difference.status(), "comparing copies of states " + after));
  return difference->empty()
             ? ho::Status()
             : shards_.break_on_all(
                   after + " copies of the same state differ: " + *difference +
                   "; load a checkpoint, and look for a computation that ranks did not do alike");
}

ho::Result<Snapshot> StepRunner::progress() const {
  HORING_TRY(between_steps("save"));
  Snapshot snapshot;
  updater_.write_to(snapshot);
  snapshot.called_steps = scheduler_.step().value;
  snapshot.loads = loads_.hashes(shards_.units.size());
  return snapshot;
}

ho::Result<Snapshot> StepRunner::snapshot() const {
  HORING_ASSIGN(Snapshot snapshot, progress());
  snapshot.units = snapshot_units(shards_);
  return snapshot;
}

ho::Status StepRunner::restore(const ho::Result<Snapshot>& input, uint64_t timeout_ms) {
  HORING_TRY(between_steps("restore"));
  HORING_TRY(synchronize());
  HORING_TRY(agree_on_snapshot(shards_, input, timeout_ms));
  const Snapshot& snapshot = *input;
  LossScale scale = updater_.scale();
  HORING_TRY(scale.restore(snapshot.loss_scale));  // before anything has changed
  const std::string what = "restoring states of step " + std::to_string(snapshot.applied_steps);
  for (size_t u = 0; u < shards_.units.size(); ++u) {
    HORING_TRY(shards_.break_unless_ok(spread(shards_, u, snapshot.units[u]),
                                       what + ", " + unit_name(config(), u)));
  }
  HORING_TRY(updater_.restore(snapshot));
  go_on_from({snapshot.called_steps});
  loads_.forget();
  return shards_.break_unless_ok(round_parameters(shards_, buffers_, plan()), what);
}

ho::Result<OwnedComm> StepRunner::new_communicator(const char* what, uint64_t timeout_ms) {
  HORING_TRY(between_steps(what));
  if (ho_comm* const world = shards_.domains->world(); world != nullptr) {
    // ho_comm_split knows of no timeout but that of connecting.
    HORING_TRY(
        shards_.break_unless_ok(barrier(world, timeout_ms), "waiting for all ranks between steps"));
  }
  return shards_.domains->another_world();
}

void StepRunner::go_on_from(StepIndex step) {
  scheduler_.restart(step);
  computing_ = false;
  not_finite_ = {};
  counted_ = {};
  step_since_ = std::chrono::steady_clock::now();
}

ho::Status StepRunner::rejoin(ho_comm* comm) {
  for (auto& track : running_) {
    track.clear();
  }
  ends_.reset();  // before its communicator
  // Until it ends well: what was under way is gone.
  if (broken().ok()) {
    shards_.broken = {ho::StatusCode::kAborted, "this runner's rejoin() failed"};
  }
  HORING_TRY(updater_.same_progress(comm, self()));
  const ho::GroupMap of_before = groups();
  HORING_TRY(connect(comm, of_before));
  go_on_from({updater_.applied_steps()});
  shards_.broken = {};
  return shards_.break_unless_ok(round_parameters(shards_, buffers_, plan()),
                                 "restoring parameters after step " + std::to_string(steps()));
}

}  // namespace paro
