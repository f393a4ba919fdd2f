// What a runner's states will take, and whether that is too much. Pure, but for enforce_budget().
#pragma once

#include <horing.h>

#include <cstdint>

#include "run/shards.hpp"
#include "state/needs.hpp"

namespace paro {

// Where groups are unequal the parts of the world's ranks do not lie in the order of messages: a
// unit is packed for the time of its collective.
[[nodiscard]] bool needs_reordering(const ho::GroupMap& groups);

// Of this config and layout; `shards` need no domains yet.
[[nodiscard]] StateShape state_shape(const Shards& shards);
[[nodiscard]] MemoryUse predicted_use(const Shards& shards, const StepPlan& plan);
// States of the fullest rank, were they split so; `step` as it is now.
[[nodiscard]] ho::Result<uint64_t> most_bytes(const Shards& shards,
                                              StepShape step,
                                              const Strategy& strategy,
                                              Scope frozen,
                                              const ho::GroupMap& groups);
// Collective: an error of all ranks where the fullest needs more than the smallest budget.
[[nodiscard]] ho::Status enforce_budget(const Shards& shards,
                                        const StepShape& step,
                                        ho_comm* comm,
                                        const ho::GroupMap& groups,
                                        uint64_t timeout_ms);

}  // namespace paro
