// Moves states: values of the caller's into this rank's shards, whole units out of all ranks'
// shards, snapshots both ways, and the comparison of copies. Between steps; nothing else is under
// way. round_parameters() (collectives.hpp) makes parameters of masters that were moved.
//
// Errors are those of the arguments and of the collectives; callers say what they break.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/shards.hpp"
#include "state/snapshot.hpp"

namespace paro {

// Values of a whole unit, as many as it has elements: this rank takes its shards.
void put_whole(Shards& shards,
               uint32_t unit,
               std::span<const float> trained,
               std::span<const float> frozen);

// A state of which this rank holds some.
struct ShardOf {
  const Storage& storage;
  Scope scope;
  const Partition& partition;
  const Routes& routes;
};
[[nodiscard]] ShardOf masters_of(const Shards& shards, size_t unit);
[[nodiscard]] ShardOf frozen_of(const Shards& shards, size_t unit);
// Collective: the whole of it.
[[nodiscard]] ho::Status read_whole(Shards& shards, const ShardOf& of, std::span<float> values);

// Collective: what differs between copies of the same state, "" for nothing. Every rank that this
// one shares a copy with says the same.
[[nodiscard]] ho::Result<std::string> difference_of_copies(const Shards& shards);

// This rank's share of all states, where they lie, and copied.
[[nodiscard]] std::vector<StatePart> parts_of(const Shards& shards);
[[nodiscard]] std::vector<UnitSnapshot> snapshot_units(const Shards& shards);
// Collective: ok on all ranks, or on none. Nobody begins to move data unless all can, and all go on
// from the same step.
[[nodiscard]] ho::Status agree_on_snapshot(const Shards& shards,
                                           const ho::Result<Snapshot>& input,
                                           uint64_t timeout_ms);
// Collective: everybody's shares to those who hold them.
[[nodiscard]] ho::Status spread(Shards& shards, size_t unit, const UnitSnapshot& from);

}  // namespace paro
