#include "planner/batch.hpp"

#include <limits>

#include "planner/figures.hpp"

namespace paro {

PlannerRequest with_batch(const Strategy& strategy, const PlannerRequest& request) {
  if (request.sequences == 0) {
    return request;
  }
  PlannerRequest chosen = request;
  chosen.activation_bytes = 0;
  const double left = request.memory_bytes > 0
                          ? request.memory_bytes - memory_of(strategy, chosen).total()
                          : std::numeric_limits<double>::infinity();
  const Batch batch = choose_batch(request.sequences, left, request.activations_of_sequence);
  chosen.sequences = 0;
  chosen.micro_batches = batch.accumulation;
  chosen.activation_bytes = request.activations_of_sequence * batch.micro_batch;
  // A single micro-batch has nothing to add up.
  if (batch.accumulation == 1 && request.sharing_units == 0) {
    chosen.bytes.gradient_sum = 0;
  }
  return chosen;
}

}  // namespace paro
