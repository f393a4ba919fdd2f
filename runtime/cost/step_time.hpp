// Seconds of communication in a training step, term by term. Pure.
//
// Per micro-batch: parameters that are split are gathered at their scope for the forward pass and
// again for the backward pass; gradients are reduced to their scope. Once per step: sync-g brings
// gradients to the optimizer's scope, sync-p brings parameters back to theirs.
//
//   t_comm = s (t_param + t_gradient) + t_sync_g + t_sync_p,  T = max(t_comm, t_comp)
//
// for s micro-batches, after arXiv 2310.06003. What a unit shares of another is gathered for it
// too, and its gradients are reduced too; the sums of both are synchronized once. T assumes that
// all communication can hide behind computation; the step plan has what really can.
#pragma once

#include <cstdint>

#include "cost/links.hpp"
#include "cost/memory.hpp"

namespace paro {

struct StepSeconds {
  double parameters = 0;  // one micro-batch, forward and backward
  double gradients = 0;   // one micro-batch
  double sync_g = 0;
  double sync_p = 0;
  [[nodiscard]] double communication(uint32_t micro_batches) const {
    return (parameters + gradients) * micro_batches + sync_g + sync_p;
  }
};

// What the collectives of a step carry in all, padding included.
struct StepVolumes {
  double gathered = 0;   // for one micro-batch, forward and backward
  double reduced = 0;    // of one micro-batch
  double gradients = 0;  // of sync-g
  double updated = 0;    // of sync-p
};
[[nodiscard]] StepVolumes step_volumes(const ModelSize& model, const BytesPerParameter& bytes);

// Each term moves in so many collectives, one a unit of the model.
[[nodiscard]] StepSeconds step_seconds(const Strategy& strategy,
                                       const ModelSize& model,
                                       const BytesPerParameter& bytes,
                                       const WorldShape& world,
                                       const Links& links,
                                       double pieces = 1);

// Of the same terms, the bytes over some levels, of messages that carry as much there.
[[nodiscard]] StepSeconds level_bytes(const Strategy& strategy,
                                      const StepVolumes& volumes,
                                      const WorldShape& world,
                                      const Links& links,
                                      LevelBytes::Over over);

// The paper's T: the longer of communication and computation.
[[nodiscard]] double paper_step_seconds(double communication_s, double computation_s);
// The paper's throughput indicator: log(1 / T).
[[nodiscard]] double throughput_indicator(double step_s);

}  // namespace paro
