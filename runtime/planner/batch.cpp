#include "planner/batch.hpp"

#include <limits>

namespace paro {
namespace {

PlannerRequest with_batch(const Batch& batch, const PlannerRequest& request) {
  PlannerRequest chosen = request;
  chosen.sequences = 0;
  chosen.micro_batch = batch.micro_batch;
  chosen.micro_batches = batch.accumulation;
  chosen.activation_bytes = request.activations_of_sequence * batch.micro_batch;
  // A single micro-batch has nothing to add up.
  if (batch.accumulation == 1 && request.sharing_units == 0) {
    chosen.bytes.gradient_sum = 0;
  }
  set_waiting(chosen);
  return chosen;
}

}  // namespace

void set_waiting(PlannerRequest& request) {
  if (request.others.traffic.empty()) {
    return;
  }
  const WaitingSeconds waiting = waiting_seconds(
      request.others, request.micro_batch, request.micro_batches, request.effects.launch_s);
  request.compute_s += waiting.usual - request.waiting_s;
  request.waiting_s = waiting.usual;
  request.half_links_more_s = waiting.on_half_links - waiting.usual;
}

PlannerRequest with_batch(const Strategy& strategy, const PlannerRequest& request) {
  if (request.sequences == 0) {
    return request;
  }
  PlannerRequest without = request;
  without.activation_bytes = 0;
  const double left = request.memory_bytes > 0
                          ? request.memory_bytes - memory_of(strategy, without).total()
                          : std::numeric_limits<double>::infinity();
  return with_batch(choose_batch(request.sequences, left, request.activations_of_sequence),
                    request);
}

PlannerRequest with_batch_of(const StrategyFigures& figures, const PlannerRequest& request) {
  if (request.sequences == 0) {
    return request;
  }
  return with_batch({request.sequences / figures.micro_batches, figures.micro_batches}, request);
}

ho::Result<std::optional<StrategyFigures>> with_smaller_batch(const StrategyFigures& figures,
                                                              const PlannerRequest& request) {
  for (uint32_t micro = request.sequences / figures.micro_batches / 2; micro > 0; --micro) {
    if (request.sequences % micro == 0) {
      HORING_ASSIGN(
          const StrategyFigures smaller,
          figures_of(figures.strategy, with_batch({micro, request.sequences / micro}, request)));
      return std::optional(smaller);
    }
  }
  return std::optional<StrategyFigures>();
}

}  // namespace paro
