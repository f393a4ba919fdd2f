// The optimizer on this rank's shards: norm, averaging, clipping, the rule or the framework's own,
// parameter groups, loss scale. Nothing here communicates but
// same_progress().
//
// Owner: StepRunner, on its thread. Errors: those of the framework's own optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "optim/gradients.hpp"
#include "optim/loss_scale.hpp"
#include "run/shards.hpp"
#include "run/step_report.hpp"
#include "state/snapshot.hpp"

namespace paro {

class Updater {
 public:
  Updater(const RunnerConfig& config, GroupsByUnit groups);

  // What sums over ranks and micro-batches of scaled losses' gradients are multiplied by.
  [[nodiscard]] double averaging_factor(const Shards& shards, uint32_t micro_batches) const;
  // The control's sums become those of what this rank has of the averaged gradients in its world
  // parts, which hold each element once, whatever copies of it there are.
  void norm(const Shards& shards, double factor) const;
  // By the control's sums and votes, of all ranks by now.
  void decide(const Shards& shards, uint32_t micro_batches) const;
  // Parameters and states of a unit, with its gradients' sums times `factor`, the control's.
  [[nodiscard]] ho::Status update(Shards& shards, uint32_t unit, double factor);
  // All units are updated, or the step was left out: as the outcome says.
  void end_step(const StepOutcome& outcome);
  // What ended last counts for the loss scale. All ranks call it in the same place.
  void follow_scale();

  [[nodiscard]] const LossScale& scale() const { return scale_; }
  // Steps that have changed masters.
  [[nodiscard]] uint64_t applied_steps() const { return applied_; }
  void write_to(Snapshot& snapshot) const;
  [[nodiscard]] ho::Status restore(const Snapshot& snapshot, const Shards& shards);
  // Collective over `comm`, of the ranks as they were numbered: that all can go on from here.
  [[nodiscard]] ho::Status same_progress(ho_comm* comm, ho::GlobalRank self) const;

 private:
  // Elements of a unit, each with the settings of its group.
  [[nodiscard]] ho::Status update_range(Shards& shards, const BufferRange& range, double factor);
  // Elements of one group: by the rule, or by the framework's own optimizer.
  void update_piece(Shards& shards, const BufferRange& piece, const ParameterGroup* group) const;
  [[nodiscard]] ho::Status call_optimizer(Shards& shards,
                                          const BufferRange& piece,
                                          const ParameterGroup* group,
                                          double factor);

  LossScale scale_;
  GroupsByUnit groups_;
  std::optional<StepOutcome> unfollowed_;  // by the scale
  uint64_t applied_ = 0;
  uint64_t optimizer_steps_ = 0;  // applied since the rule's state was zeros, as in the control
  bool torn_ = false;             // an optimizer failed when some masters had changed
  std::vector<float> block_;      // gradients for the framework's own optimizer
  std::vector<float*> states_of_block_;
};

}  // namespace paro
