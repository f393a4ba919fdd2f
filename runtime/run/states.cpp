#include "run/states.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "run/agreement.hpp"

namespace paro {
namespace {

void put(const Operations& operations, const Storage& storage, std::span<const float> values) {
  for (const Range& range : storage.ranges()) {
    // The buffer's end may be padding.
    const uint64_t end = std::min<uint64_t>(range.end, values.size());
    if (range.begin < end) {
      operations.store(
          storage.dtype(), values.subspan(range.begin, end - range.begin), storage.at(range.begin));
    }
  }
}

PartValues taken_from(const Shards& shards, const Storage& storage, const Partition& partition) {
  PartValues values{snapshot_ranges(partition, shards.self()), storage.dtype(), {}};
  const uint64_t element = ho::size_bytes(storage.dtype());
  values.bytes.reserve(values.count() * element);
  for (const Range& range : values.ranges) {
    shards.ledger.operations().fetch(
        storage.at(range.begin), range.count() * element, values.bytes);
  }
  return values;
}

// The other way, into storage that holds at least those elements.
void put_into(const Operations& operations, const Storage& storage, const PartValues& values) {
  const uint64_t element = ho::size_bytes(storage.dtype());
  std::span<const std::byte> left(values.bytes);
  for (const Range& range : values.ranges) {
    const uint64_t bytes = range.count() * element;
    operations.store(left.first(bytes), storage.at(range.begin));
    left = left.subspan(bytes);
  }
}

ho::Status check_part(const PartValues& values, const Partition& partition, ho::GlobalRank self) {
  const bool fits = values.ranges == snapshot_ranges(partition, self) &&
                    values.bytes.size() == values.count() * ho::size_bytes(values.dtype);
  return fits ? ho::Status()
              : ho::Status(ho::StatusCode::kInvalidArgument,
                           "a snapshot of another layout (units, groups or alignment differ)");
}

ho::Status check_snapshot(const Shards& shards, const Snapshot& snapshot) {
  const std::vector<UnitState>& units = shards.units;
  if (snapshot.units.size() != units.size()) {
    return {ho::StatusCode::kInvalidArgument,
            "a snapshot of " + std::to_string(snapshot.units.size()) + " units for " +
                std::to_string(units.size())};
  }
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitSnapshot& unit = snapshot.units[u];
    if (unit.states.size() != units[u].optimizer.size() ||
        unit.frozen.dtype != shards.config.parameter_dtype) {
      return {ho::StatusCode::kInvalidArgument,
              "a snapshot with another optimizer or type of frozen parameters"};
    }
    for (const PartValues& state : unit.states) {
      HORING_TRY(check_part(state, shards.layouts[u].trained, shards.self()));
    }
    HORING_TRY(check_part(unit.frozen, shards.layouts[u].frozen, shards.self()));
  }
  return {};
}

// What ranks hold of a state, in the order of `whole`.
ho::Status gather_whole(Shards& shards,
                        const std::vector<Route>& routes,
                        const Storage& part,
                        const Buffer& whole) {
  Transfer transfer(shards.ledger, shards.transfer_options());
  const ho::Status started = transfer.gather(routes, part, ElementView(whole.get(), part.dtype()));
  const ho::Status finished = transfer.finish();
  return started.ok() ? finished : started;
}

// Everybody's world parts, for a state of a wider scope.
ho::Status spread_values(Shards& shards, const PartValues& values, const ShardOf& to) {
  if (to.scope == Scope::kWorld) {
    put_into(shards.ledger.operations(), to.storage, values);
    return shards.ledger.operations().finish();
  }
  if (to.partition.padded_count() == 0) {
    return {};
  }
  Ledger& ledger = shards.ledger;
  HORING_ASSIGN(
      const Storage part,
      Storage::make(
          ledger, Purpose::kScratch, to.partition, Scope::kWorld, shards.self(), values.dtype));
  put_into(ledger.operations(), part, values);
  const uint64_t element = ho::size_bytes(values.dtype);
  HORING_ASSIGN(const Buffer whole,
                ledger.allocate(Purpose::kScratch, to.partition.padded_count() * element));
  HORING_TRY(gather_whole(shards, to.routes.of(Domain::kWorld), part, whole));
  for (const Range& range : to.storage.ranges()) {
    ledger.operations().copy(
        to.storage.at(range.begin), whole.get() + range.begin * element, range.count() * element);
  }
  return ledger.operations().finish();
}

}  // namespace

void put_whole(Shards& shards,
               uint32_t unit,
               std::span<const float> trained,
               std::span<const float> frozen) {
  UnitState& state = shards.units[unit];
  const Operations& operations = shards.ledger.operations();
  put(operations, state.parameters, trained);
  put(operations, state.frozen, frozen);
  put(operations, state.master(), trained);
}

ShardOf masters_of(const Shards& shards, size_t unit) {
  return {shards.units[unit].optimizer.front(),
          shards.config.strategy.optimizer,
          shards.layouts[unit].trained,
          shards.trained_routes[unit]};
}

ShardOf frozen_of(const Shards& shards, size_t unit) {
  return {shards.units[unit].frozen,
          shards.config.frozen,
          shards.layouts[unit].frozen,
          shards.frozen_routes[unit]};
}

ho::Status read_whole(Shards& shards, const ShardOf& of, std::span<float> values) {
  const ho::DType dtype = of.storage.dtype();
  const uint64_t bytes = of.partition.padded_count() * ho::size_bytes(dtype);
  if (bytes == 0) {
    return {};
  }
  if (of.scope == Scope::kReplicated) {
    shards.ledger.operations().fetch(dtype, of.storage.at(0), 1, values);
    return shards.ledger.operations().finish();
  }
  HORING_ASSIGN(const Buffer whole, shards.ledger.allocate(Purpose::kScratch, bytes));
  const Domain domain = of.scope == Scope::kGroup ? Domain::kIntra : Domain::kWorld;
  HORING_TRY(gather_whole(shards, of.routes.of(domain), of.storage, whole));
  shards.ledger.operations().fetch(dtype, whole.get(), 1, values);
  return shards.ledger.operations().finish();
}

std::vector<StatePart> parts_of(const Shards& shards) {
  std::vector<StatePart> parts;
  for (uint32_t u = 0; u < shards.units.size(); ++u) {
    const auto add = [&](uint32_t state, const Storage& storage, const Partition& partition) {
      for (const Range& range : snapshot_ranges(partition, shards.self())) {
        const uint64_t bytes = range.count() * ho::size_bytes(storage.dtype());
        parts.push_back({u, state, range, storage.dtype(), {storage.at(range.begin), bytes}});
      }
    };
    const UnitState& unit = shards.units[u];
    for (uint32_t i = 0; i < unit.optimizer.size(); ++i) {
      add(i, unit.optimizer[i], shards.layouts[u].trained);
    }
    add(kFrozenState, unit.frozen, shards.layouts[u].frozen);
  }
  return parts;
}

std::vector<UnitSnapshot> snapshot_units(const Shards& shards) {
  std::vector<UnitSnapshot> units;
  for (size_t u = 0; u < shards.units.size(); ++u) {
    const UnitLayout& layout = shards.layouts[u];
    UnitSnapshot& unit = units.emplace_back();
    for (const Storage& state : shards.units[u].optimizer) {
      unit.states.push_back(taken_from(shards, state, layout.trained));
    }
    unit.frozen = taken_from(shards, shards.units[u].frozen, layout.frozen);
  }
  return units;
}

ho::Status agree_on_snapshot(const Shards& shards,
                             const ho::Result<Snapshot>& input,
                             uint64_t timeout_ms) {
  ho::Status mine = input.ok() ? check_snapshot(shards, *input) : input.status();
  ho_comm* const world = shards.domains->world();
  if (world == nullptr) {
    return mine;
  }
  HORING_TRY(all_ok(world, mine, timeout_ms, shards.ranks()));
  const Snapshot& snapshot = *input;
  const std::array<uint64_t, 7> position{snapshot.applied_steps,
                                         snapshot.called_steps,
                                         snapshot.optimizer_steps,
                                         std::bit_cast<uint64_t>(snapshot.loss_scale.value),
                                         snapshot.loss_scale.good_steps,
                                         snapshot.source[0],
                                         snapshot.source[1]};
  HORING_ASSIGN(const auto all, all_gather_values(world, position, shards.config.timeout_ms));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != all[i % position.size()]) {
      return {
          ho::StatusCode::kMismatch,
          "restore: ranks differ in the checkpoint, or in reset_optimizer or tensors of the load "
          "options; give all ranks the same"};
    }
  }
  return {};
}

ho::Status spread(Shards& shards, size_t unit, const UnitSnapshot& from) {
  const ShardOf to = masters_of(shards, unit);
  for (size_t i = 0; i < from.states.size(); ++i) {
    HORING_TRY(spread_values(shards,
                             from.states[i],
                             {shards.units[unit].optimizer[i], to.scope, to.partition, to.routes}));
  }
  return spread_values(shards, from.frozen, frozen_of(shards, unit));
}

}  // namespace paro
