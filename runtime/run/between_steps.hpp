// What is called between steps: states are loaded, read, compared, saved and restored.
//
// Errors of the collectives break the runner; those of arguments do not.
//
// Owner: StepRunner, on its thread. What its constructor is given outlives it.
#pragma once

#include <span>
#include <vector>

#include "run/shards.hpp"
#include "run/states.hpp"
#include "run/step_agreement.hpp"
#include "run/step_progress.hpp"
#include "run/updater.hpp"

namespace paro {

class BetweenSteps {
 public:
  BetweenSteps(Shards& shards, Updater& updater, StepAgreement& agreement, StepProgress& progress)
      : shards_(shards), updater_(updater), agreement_(agreement), progress_(progress) {}

  // Ok, or an error of this rank: in the middle of a step `what` cannot be.
  [[nodiscard]] ho::Status may(const char* what) const;
  // The unit's values, the same on all ranks, of which this rank takes its shards. The next step()
  // compares what the ranks were given, before it updates anything.
  [[nodiscard]] ho::Status load(uint32_t unit,
                                std::span<const float> trained,
                                std::span<const float> frozen);
  // Collective: whole masters of a unit.
  [[nodiscard]] ho::Status read_masters(uint32_t unit, std::span<float> trained);
  // Collective: whole frozen parameters of a unit, as load() rounded them.
  [[nodiscard]] ho::Status read_frozen(uint32_t unit, std::span<float> frozen);
  // Collective: ok if all copies of all states are the same bits.
  [[nodiscard]] ho::Status check_drift();
  // Not collective: this rank's share of all states.
  [[nodiscard]] ho::Result<Snapshot> snapshot();
  // The same without the units; and these where they lie, for as long as nothing is called that
  // changes states.
  [[nodiscard]] ho::Result<Snapshot> snapshot_without_units();
  [[nodiscard]] std::vector<StatePart> parts() const { return parts_of(shards_); }
  // Collective: all states as they were when the ranks took these snapshots, of a runner with the
  // same units, groups, alignment, rule and parameter type, whatever its strategy. Fails on all
  // ranks, before anything has changed, where a rank has an error instead of a snapshot, or one
  // that does not fit. `timeout_ms`, here and below: how long ranks wait for the last one that
  // comes; 0: the communicator's timeout.
  [[nodiscard]] ho::Status restore(const ho::Result<Snapshot>& input, uint64_t timeout_ms = 0);
  // Collective: another communicator of all ranks, numbered as they are.
  // `what` it is for, as the caller knows it.
  [[nodiscard]] ho::Result<OwnedComm> new_communicator(const char* what, uint64_t timeout_ms = 0);

 private:
  // Collective: an error of all ranks where one cannot read.
  [[nodiscard]] ho::Status may_read(const char* what,
                                    uint32_t unit,
                                    uint64_t capacity,
                                    uint64_t UnitShape::*count);
  [[nodiscard]] ho::Status read(const char* what,
                                uint32_t unit,
                                const ShardOf& of,
                                std::span<float> values);
  [[nodiscard]] uint64_t steps() const { return progress_.scheduler().step().value; }

  Shards& shards_;
  Updater& updater_;
  StepAgreement& agreement_;
  StepProgress& progress_;
};

}  // namespace paro
