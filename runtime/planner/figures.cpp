#include "planner/figures.hpp"

#include <algorithm>

#include "planner/parallelism.hpp"
#include "planner/units.hpp"
#include "step/buckets.hpp"

namespace paro {
namespace {

StepPath path_of(const VirtualStep& step, const Strategy& strategy, const PlannerRequest& request) {
  return {step.step_s, computing_s(strategy, request), step.intra.busy_s + step.inter.busy_s};
}

StepRange range_of(const StepPath& path, const PlannerRequest& request) {
  return step_range(
      path.path_s, path.compute_s, path.busy_s, request.effects, request.world.ranks());
}

// Routed experts are split among the ranks that hold the same ones.
StateBytes states_of(const Strategy& strategy, const PlannerRequest& request) {
  const auto part = [&](double share, const WorldShape& world) {
    const ModelSize model{request.model.parameters * share, request.model.trainable * share};
    return state_bytes(strategy, model, request.bytes, world);
  };
  const StateBytes dense = part(1 - request.routed_share, request.world);
  const StateBytes routed =
      part(request.routed_share,
           expert_world(request.world, request.expert_ranks, request.context_ranks));
  return {dense.parameters + routed.parameters,
          dense.gradients + routed.gradients,
          dense.optimizer + routed.optimizer};
}

// What other dimensions send is slower too.
ho::Result<double> half_links_step_s(const Strategy& strategy, const PlannerRequest& request) {
  PlannerRequest waiting_longer;
  const PlannerRequest* on_slower = &request;
  if (request.half_links_more_s > 0) {
    waiting_longer = request;
    waiting_longer.compute_s += request.half_links_more_s;
    on_slower = &waiting_longer;
  }
  const Links slower = half_as_good(request.world, request.links);
  HORING_ASSIGN(const VirtualStep step, virtual_step(strategy, *on_slower, slower, Gains::kNo));
  return range_of(path_of(step, strategy, *on_slower), *on_slower).expected_s;
}

}  // namespace

MemoryNeed memory_of(const Strategy& strategy, const PlannerRequest& request) {
  const Units units(request);
  MemoryNeed need;
  need.states = states_of(strategy, request);
  if (strategy.parameters != Scope::kReplicated) {
    const uint32_t together = 1 + request.prefetch;
    need.gathered =
        request.bytes.parameter *
        (request.units.empty() ? units.largest() * together : units.largest_together(together));
  }
  double largest = 0;  // of units and buckets
  double packed = 0;   // of buckets of several units
  const StepShape shape = shape_of(strategy, request, 1);
  for (const Bucket& bucket : buckets_of(shape.units, shape.bucket_elements)) {
    double bytes = 0;
    for (const uint32_t unit : bucket) {
      bytes += request.bytes.gradient * units[unit].trainable;
    }
    largest = std::max(largest, bytes);
    packed = std::max(packed, bucket.size() > 1 ? bytes : 0);
  }
  if (strategy.gradients != Scope::kReplicated) {
    need.gradient_buffers = largest * kGradientBuffers;
  } else if (request.bytes.gradient_sum > request.bytes.gradient) {
    // A micro-batch's gradients of one unit, before they are added to the wider sums.
    need.gradient_buffers = request.bytes.gradient * units.largest_trainable();
  }
  need.gradient_buffers += packed * kPackBuffers;
  need.activations = request.activation_bytes;
  need.reserve = request.reserve_bytes;
  return need;
}

ho::Result<StrategyFigures> figures_of(const Strategy& strategy, const PlannerRequest& request) {
  StrategyFigures figures;
  figures.strategy = strategy;
  figures.memory = memory_of(strategy, request);
  figures.micro_batches = request.micro_batches;
  figures.memory_bytes = request.memory_bytes;
  if (request.memory_bytes > 0) {
    figures.missing_bytes = std::max(figures.memory.total() - request.memory_bytes, 0.0);
  }
  StepTime& time = figures.time;
  time.terms = step_seconds(strategy,
                            request.model,
                            request.bytes,
                            request.world,
                            request.links,
                            double{1} * unit_count(request));
  time.waiting_s = request.waiting_s;
  time.communication_s = time.terms.communication(request.micro_batches) + time.waiting_s;
  time.paper_step_s = paper_step_seconds(time.communication_s, request.compute_s - time.waiting_s);
  time.indicator = throughput_indicator(time.paper_step_s);
  HORING_ASSIGN(const VirtualStep step,
                virtual_step(strategy, request, request.links, Gains::kYes));
  const StepPath path = path_of(step, strategy, request);
  time.exposed_s = path.path_s - path.compute_s + time.waiting_s;
  time.busy_s = path.busy_s;
  time.range = range_of(path, request);
  if (time.waiting_s > 0) {  // at least what would hide it too takes
    time.range.least_s *= std::max(path.path_s - time.waiting_s, time.waiting_s) / path.path_s;
  }
  time.step_s = time.range.expected_s;
  time.intra = step.intra;
  time.inter = step.inter;
  // A slower collective may leave another one more of a link that they share: nothing to count on.
  HORING_ASSIGN(const double half_links_s, half_links_step_s(strategy, request));
  time.half_links_s = std::max(half_links_s, time.step_s);
  return figures;
}

ho::Result<StepPath> step_path(const Strategy& strategy, const PlannerRequest& request) {
  HORING_ASSIGN(const VirtualStep step, virtual_step(strategy, request, request.links, Gains::kNo));
  return path_of(step, strategy, request);
}

ho::Result<double> expected_step_s(const Strategy& strategy, const PlannerRequest& request) {
  HORING_ASSIGN(const StepPath path, step_path(strategy, request));
  return range_of(path, request).expected_s;
}

}  // namespace paro
