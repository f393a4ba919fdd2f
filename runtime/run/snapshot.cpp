// What the runner gives away of its states and takes back, between steps.
#include <array>
#include <bit>
#include <cstring>

#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {
namespace {

PartValues taken_from(const Storage& storage, const Partition& partition, ho::GlobalRank self) {
  PartValues values{snapshot_ranges(partition, self), storage.dtype(), {}};
  const uint64_t element = ho::size_bytes(storage.dtype());
  values.bytes.reserve(values.count() * element);
  for (const Range& range : values.ranges) {
    const std::byte* const from = storage.at(range.begin);
    values.bytes.insert(values.bytes.end(), from, from + range.count() * element);
  }
  return values;
}

// The other way, into storage that holds at least those elements.
void put_into(const Storage& storage, const PartValues& values) {
  const uint64_t element = ho::size_bytes(storage.dtype());
  const std::byte* next = values.bytes.data();
  for (const Range& range : values.ranges) {
    std::memcpy(storage.at(range.begin), next, range.count() * element);
    next += range.count() * element;
  }
}

ho::Status check_part(const PartValues& values, const Partition& partition, ho::GlobalRank self) {
  const bool fits = values.ranges == snapshot_ranges(partition, self) &&
                    values.bytes.size() == values.count() * ho::size_bytes(values.dtype);
  return fits ? ho::Status()
              : ho::Status(ho::StatusCode::kInvalidArgument,
                           "a snapshot of another layout (units, groups or alignment differ)");
}

}  // namespace

ho::Result<Snapshot> StepRunner::progress() const {
  HORING_TRY(between_steps("save"));
  Snapshot snapshot{applied_, steps_, optimizer_steps_, scale_.state(), {}, {}, loads_};
  snapshot.loads.resize(units_.size(), 0);
  return snapshot;
}

std::vector<StatePart> StepRunner::parts() const {
  std::vector<StatePart> parts;
  for (uint32_t u = 0; u < units_.size(); ++u) {
    const auto add = [&](uint32_t state, const Storage& storage, const Partition& partition) {
      for (const Range& range : snapshot_ranges(partition, domains_->self())) {
        const uint64_t bytes = range.count() * ho::size_bytes(storage.dtype());
        parts.push_back({u, state, range, storage.dtype(), {storage.at(range.begin), bytes}});
      }
    };
    for (uint32_t i = 0; i < units_[u].optimizer.size(); ++i) {
      add(i, units_[u].optimizer[i], layouts_[u].trained);
    }
    add(kFrozenState, units_[u].frozen, layouts_[u].frozen);
  }
  return parts;
}

ho::Result<Snapshot> StepRunner::snapshot() const {
  HORING_ASSIGN(Snapshot snapshot, progress());
  for (size_t u = 0; u < units_.size(); ++u) {
    UnitSnapshot unit;
    for (const Storage& state : units_[u].optimizer) {
      unit.states.push_back(taken_from(state, layouts_[u].trained, domains_->self()));
    }
    unit.frozen = taken_from(units_[u].frozen, layouts_[u].frozen, domains_->self());
    snapshot.units.push_back(std::move(unit));
  }
  return snapshot;
}

ho::Status StepRunner::check_snapshot(const Snapshot& snapshot) const {
  const ho::GlobalRank self = domains_->self();
  if (snapshot.units.size() != units_.size()) {
    return {ho::StatusCode::kInvalidArgument,
            "a snapshot of " + std::to_string(snapshot.units.size()) + " units for " +
                std::to_string(units_.size())};
  }
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitSnapshot& unit = snapshot.units[u];
    if (unit.states.size() != units_[u].optimizer.size() ||
        unit.frozen.dtype != config_.parameter_dtype) {
      return {ho::StatusCode::kInvalidArgument,
              "a snapshot with another optimizer or type of frozen parameters"};
    }
    for (const PartValues& state : unit.states) {
      HORING_TRY(check_part(state, layouts_[u].trained, self));
    }
    HORING_TRY(check_part(unit.frozen, layouts_[u].frozen, self));
  }
  return {};
}

// Everybody's world parts, for a state of a wider scope.
ho::Status StepRunner::spread(const PartValues& values,
                              const Storage& storage,
                              Scope scope,
                              const Partition& partition,
                              const Routes& routes) {
  if (scope == Scope::kWorld) {
    put_into(storage, values);
    return {};
  }
  if (partition.padded_count() == 0) {
    return {};
  }
  HORING_ASSIGN(
      const Storage part,
      Storage::make(
          ledger_, Purpose::kScratch, partition, Scope::kWorld, domains_->self(), values.dtype));
  put_into(part, values);
  const uint64_t element = ho::size_bytes(values.dtype);
  HORING_ASSIGN(const Buffer whole,
                ledger_.allocate(Purpose::kScratch, partition.padded_count() * element));
  Transfer transfer(ledger_, {config_.algorithm, config_.timeout_ms});
  const ho::Status started =
      transfer.gather(routes.of(Domain::kWorld), part, Place(whole.get(), values.dtype));
  const ho::Status finished = transfer.finish();
  HORING_TRY(started);
  HORING_TRY(finished);
  for (const Range& range : storage.ranges()) {
    ledger_.memory().copy(
        storage.at(range.begin), whole.get() + range.begin * element, range.count() * element);
  }
  return {};
}

ho::Status StepRunner::spread_unit(size_t u, const UnitSnapshot& from) {
  for (size_t i = 0; i < from.states.size(); ++i) {
    HORING_TRY(spread(from.states[i],
                      units_[u].optimizer[i],
                      config_.strategy.optimizer,
                      layouts_[u].trained,
                      trained_routes_[u]));
  }
  return spread(
      from.frozen, units_[u].frozen, config_.frozen, layouts_[u].frozen, frozen_routes_[u]);
}

// Nobody begins to move data unless all can, and all go on from the same step.
ho::Status StepRunner::agree_on_snapshot(const ho::Result<Snapshot>& given,
                                         uint64_t timeout_ms) const {
  ho::Status mine = given.ok() ? check_snapshot(*given) : given.status();
  if (domains_->world() == nullptr) {
    return mine;
  }
  HORING_TRY(all_ok(domains_->world(), mine, timeout_ms, world_order(domains_->groups())));
  const Snapshot& snapshot = *given;
  const std::array<uint64_t, 7> place{snapshot.applied_steps,
                                      snapshot.called_steps,
                                      snapshot.optimizer_steps,
                                      std::bit_cast<uint64_t>(snapshot.loss_scale.value),
                                      snapshot.loss_scale.good_steps,
                                      snapshot.source[0],
                                      snapshot.source[1]};
  HORING_ASSIGN(const auto all, all_gather_values(domains_->world(), place, config_.timeout_ms));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != all[i % place.size()]) {
      return {
          ho::StatusCode::kMismatch,
          "restore: ranks differ in the checkpoint, or in reset_optimizer or tensors of the load "
          "options; give all ranks the same"};
    }
  }
  return {};
}

ho::Status StepRunner::restore(const ho::Result<Snapshot>& given, uint64_t timeout_ms) {
  HORING_TRY(between_steps("restore"));
  HORING_TRY(synchronize());
  HORING_TRY(agree_on_snapshot(given, timeout_ms));
  const Snapshot& snapshot = *given;
  HORING_TRY(scale_.restore(snapshot.loss_scale));
  const std::string what = "restoring states of step " + std::to_string(snapshot.applied_steps);
  for (size_t u = 0; u < units_.size(); ++u) {
    HORING_TRY(
        break_unless_ok(spread_unit(u, snapshot.units[u]),
                        what + ", unit " + std::to_string(u) + " (" + config_.units[u].name + ")"));
  }
  applied_ = snapshot.applied_steps;
  optimizer_steps_ = snapshot.optimizer_steps;
  go_on_from(snapshot.called_steps);
  forget_loads();
  return break_unless_ok(restore_parameters(), what);
}

ho::Result<OwnedComm> StepRunner::new_communicator(const char* what, uint64_t timeout_ms) {
  HORING_TRY(between_steps(what));
  if (ho_comm* const world = domains_->world(); world != nullptr) {
    // ho_comm_split knows of no timeout but that of connecting.
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    HORING_TRY(break_unless_ok(checked(ho_barrier(world, &options)),
                               "waiting for all ranks between steps"));
  }
  return domains_->another_world();
}

}  // namespace paro
