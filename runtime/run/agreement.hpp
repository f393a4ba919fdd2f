// What ranks compare before and while they train. Collective, over small vectors of numbers; a
// timeout of 0 is the communicator's.
#pragma once

#include <horing.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "group/group_map.hpp"
#include "layout/unit_layout.hpp"
#include "step/streams.hpp"

namespace paro {

struct RunnerConfig;

// Ok on every rank, or on none: this rank's own error, or what the first rank that has one says.
// `ranks`: what the communicator's ranks are called, where those are not their numbers.
[[nodiscard]] ho::Status all_ok(ho_comm* comm,
                                const ho::Status& mine,
                                uint64_t timeout_ms = 0,
                                std::span<const ho::GlobalRank> ranks = {});

// Ok on every rank, or on none: which ranks differ in what.
[[nodiscard]] ho::Status agree_on_config(ho_comm* comm,
                                         const RunnerConfig& config,
                                         const ho::GroupMap& groups,
                                         uint64_t timeout_ms);

// The smallest that a rank has; 0 is none.
[[nodiscard]] ho::Result<uint64_t> smallest_budget(ho_comm* comm,
                                                   uint64_t budget,
                                                   uint64_t timeout_ms);

// The first number that a rank has otherwise than the communicator's rank 0; every rank passes the
// same number of them, and gets the same answer. nullopt: all have the same.
struct Difference {
  size_t index = 0;
  size_t rank = 0;  // of the communicator
};
[[nodiscard]] ho::Result<std::optional<Difference>> first_difference(
    ho_comm* comm, std::span<const uint64_t> values, uint64_t timeout_ms = 0);

// kMismatch, on all ranks, where they would give their devices a step's collectives in different
// orders. nullptr: this rank is alone.
[[nodiscard]] ho::Status same_launches(ho_comm* comm,
                                       const StepPlan& plan,
                                       const StepStreams& streams,
                                       uint64_t timeout_ms);

// An error of all ranks where load() was given different values. `loads`: as in Snapshot; `where`:
// what compares them; `ranks`: as all_ok.
[[nodiscard]] ho::Status same_loads(ho_comm* comm,
                                    std::span<const uint64_t> loads,
                                    std::span<const UnitShape> units,
                                    const std::string& where,
                                    uint64_t timeout_ms,
                                    std::span<const ho::GlobalRank> ranks = {});

}  // namespace paro
