// What a runner's states will take, and whether that is too much.
#include <algorithm>
#include <array>

#include "run/agreement.hpp"
#include "run/step_runner.hpp"

namespace paro {
namespace {

StateShape shape_of(const RunnerConfig& config, uint64_t merged_elements) {
  StateShape shape;
  shape.strategy = config.strategy;
  shape.frozen = config.frozen;
  shape.parameter_dtype = config.parameter_dtype;
  shape.gradient_dtype = config.gradient_dtype;
  // A single micro-batch's gradients are their own sum.
  const bool wide = config.micro_batches > 1 && !config.narrow_sums;
  shape.sum_dtype = wide ? ho::DType::kFloat32 : config.gradient_dtype;
  shape.optimizer_arrays = 1 + (config.optimizer ? 0 : state_count(config.rule));
  shape.gathered_buffers = config.prefetch + 1;
  shape.output_buffers = kGradientBuffers;
  shape.pack_buffers = kPackBuffers;
  shape.merged_elements = merged_elements;
  return shape;
}

// Where groups are unequal the parts of the world's ranks do not lie in the order of messages: a
// unit is packed for the time of its collective.
bool needs_reordering(const ho::GroupMap& groups) {
  for (uint32_t group = 1; group < groups.group_count(); ++group) {
    if (groups.group_size(ho::GroupIndex(group)) != groups.group_size(ho::GroupIndex(0))) {
      return true;
    }
  }
  return false;
}

// At most one reordered unit is on each channel (may_pack()).
uint64_t reordering_bytes(const StepPlan& plan,
                          const std::vector<UnitLayout>& layouts,
                          const ho::GroupMap& groups,
                          const StateShape& shape) {
  if (!needs_reordering(groups)) {
    return 0;
  }
  std::array<uint64_t, kChannelCount> most{};
  for (const Action& action : plan.actions) {
    if (!moves_parts_of_world(action) || is_merged(action)) {
      continue;
    }
    const UnitLayout& layout = layouts[action.unit];
    const uint64_t count = action.content == Content::kFrozen ? layout.frozen.padded_count()
                                                              : layout.trained.padded_count();
    const ho::DType dtype =
        action.content == Content::kGradients ? shape.gradient_dtype : shape.parameter_dtype;
    uint64_t& bytes = most[static_cast<size_t>(action.channel)];
    bytes = std::max(bytes, count * ho::size_bytes(dtype));
  }
  uint64_t all = 0;
  for (const uint64_t bytes : most) {
    all += bytes;
  }
  return all;
}

}  // namespace

StateShape StepRunner::state_shape() const {
  return shape_of(config_, bucket_places_.most_elements);
}

MemoryUse StepRunner::predicted() const {
  MemoryUse use = needed(state_shape(), layouts_, domains_->self());
  use[Purpose::kScratch] += reordering_bytes(plan_, layouts_, domains_->groups(), state_shape());
  return use;
}

ho::Result<uint64_t> StepRunner::most_bytes(const Strategy& strategy,
                                            Scope frozen,
                                            const ho::GroupMap& groups) const {
  StepShape step = plan_.shape;
  step.strategy = strategy;
  step.frozen = frozen;
  step.micro_batches = 1;  // more of them need nothing more
  HORING_ASSIGN(const StepPlan plan, build_step_plan(step));
  StateShape shape = state_shape();
  shape.strategy = strategy;
  shape.frozen = frozen;
  return needed_at_most(shape, layouts_, groups.world_size()) +
         reordering_bytes(plan, layouts_, groups, shape);
}

ho::Status StepRunner::enforce_budget(ho_comm* comm,
                                      const ho::GroupMap& groups,
                                      uint64_t patience_ms) {
  reorders_ = needs_reordering(groups);
  HORING_ASSIGN(const uint64_t budget, smallest_budget(comm, config_.budget_bytes, patience_ms));
  HORING_ASSIGN(const uint64_t most, most_bytes(config_.strategy, config_.frozen, groups));
  if (budget == 0 || most <= budget) {
    return {};
  }
  std::string fitting;
  for (const Strategy& strategy : all_strategies()) {
    HORING_ASSIGN(const uint64_t bytes, most_bytes(strategy, config_.frozen, groups));
    if (bytes <= budget) {
      fitting +=
          (fitting.empty() ? "" : ", ") + letters(strategy) + " (" + std::to_string(bytes) + ")";
    }
  }
  return {ho::StatusCode::kOutOfMemory,
          "strategy " + letters(config_.strategy) + " needs " + std::to_string(most) +
              " bytes on the fullest rank, the budget is " + std::to_string(budget) + ": " +
              (fitting.empty() ? "none of the 14 strategies fits; more ranks, fewer units gathered "
                                 "ahead or 16-bit gradients would need less"
                               : "these would fit (bytes): " + fitting)};
}

}  // namespace paro
