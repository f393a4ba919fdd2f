// The collectives of a step's actions, on a rank's shards, and what becomes of their results.
// Errors are the library's, without a word of the action: callers name it.
#pragma once

#include <vector>

#include "run/shards.hpp"
#include "run/step_buffers.hpp"

namespace paro {

// A unit's parameters: for a computation into its buffer, of sync-p into the shards themselves.
[[nodiscard]] ho::Status start_gather(const Shards& shards,
                                      const StepBuffers& buffers,
                                      const Action& action,
                                      ActionId id,
                                      Transfer& transfer);

// What a reduction reads, by unit: outputs of a backward pass, or sums.
[[nodiscard]] std::vector<ElementView> reduced_buffers(const Shards& shards,
                                                       const StepBuffers& buffers,
                                                       const Action& action,
                                                       ActionId id);
[[nodiscard]] ho::Status start_reduction(const Shards& shards,
                                         const Action& action,
                                         const std::vector<ElementView>& buffers_of_units,
                                         Transfer& transfer);

// Gradients that `action`, a backward pass or its reduction, leaves at `gradients` join the sums of
// `unit`, which after the last of `micro_batches` are as they are sent.
void add_gradients(Shards& shards,
                   const Action& action,
                   uint32_t unit,
                   const ElementView& gradients,
                   uint32_t micro_batches);

// Collective, between steps: parameters from masters, as an update leaves them; sums begin anew.
[[nodiscard]] ho::Status round_parameters(Shards& shards,
                                          const StepBuffers& buffers,
                                          const StepPlan& plan);

// Collective, before the first step: one of each kind that the plan has on each set of ranks. The
// first one on a communicator of NCCL connects its ranks, and waits for them inside the call.
[[nodiscard]] ho::Status connect_collectives(Shards& shards, const StepPlan& plan);

}  // namespace paro
