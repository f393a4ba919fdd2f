#include "run/budget.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "run/agreement.hpp"

namespace paro {
namespace {

// The room in which an action reorders a unit, 0 where it does not.
uint64_t reordered_bytes(const Action& action,
                         const std::vector<UnitLayout>& layouts,
                         const StateShape& shape) {
  if (!moves_parts_of_world(action) || is_merged(action)) {
    return 0;
  }
  const UnitLayout& layout = layouts[action.unit];
  const uint64_t count = action.content == Content::kFrozen ? layout.frozen.padded_count()
                                                            : layout.trained.padded_count();
  const ho::DType dtype =
      action.content == Content::kGradients ? shape.gradient_dtype : shape.parameter_dtype;
  return count * ho::size_bytes(dtype);
}

// A reduction, and the compute slots whose gathers may be under way with it.
struct Overlap {
  uint64_t bytes = 0;
  size_t first = 0;  // that after its own backward: a gather ends before its slot begins
  size_t last = 0;
};

// What is reordered in a step, by what else may be under way.
struct Reordering {
  uint64_t alone = 0;             // the most that one action takes
  std::vector<uint64_t> gathers;  // by compute slot: the larger of its two
  std::vector<Overlap> reductions;
};

Reordering reordering_of(const StepPlan& plan,
                         const std::vector<UnitLayout>& layouts,
                         const StateShape& shape) {
  Reordering all;
  std::map<ActionId, size_t> overlaps;
  all.gathers.push_back(0);  // of the slot that comes next
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    const Action& action = plan.actions[id.at()];
    const size_t slot = all.gathers.size() - 1;
    if (action.act == Act::kForward || action.act == Act::kBackward) {
      for (const ActionId before : action.after) {
        // It needs the reduction's buffer; gathers for so many slots more may have begun by now.
        if (const auto found = overlaps.find(before); found != overlaps.end()) {
          all.reductions[found->second].last = slot + plan.shape.prefetch;
        }
      }
      all.gathers.push_back(0);
      continue;
    }
    const uint64_t bytes = reordered_bytes(action, layouts, shape);
    all.alone = std::max(all.alone, bytes);
    if (action.track == Track::kGathers) {
      all.gathers.back() = std::max(all.gathers.back(), bytes);
    } else if (action.track == Track::kReductions && bytes > 0) {
      overlaps.emplace(id, all.reductions.size());
      all.reductions.push_back({bytes, slot, SIZE_MAX});
    }
  }
  return all;
}

// The most at any time. Each track reorders one unit at a time (Scheduler::may_start()). Sync-p
// begins when a step's reductions have ended, and ends before the next step's first gather over the
// world and before its first backward: it is alone. A reduction and a gather of another slot may be
// under way together. Whether they are depends on how long computation and collectives take, so
// where both are over the world this is what there may be, and not what every step comes to.
uint64_t reordering_bytes(const StepPlan& plan,
                          const std::vector<UnitLayout>& layouts,
                          const ho::GroupMap& groups,
                          const StateShape& shape) {
  if (!needs_reordering(groups)) {
    return 0;
  }
  const Reordering all = reordering_of(plan, layouts, shape);
  uint64_t most = all.alone;
  std::multiset<uint64_t> gathers;  // of the window; windows follow one another
  size_t begin = 0;
  size_t end = 0;
  for (const Overlap& overlap : all.reductions) {
    for (; end < all.gathers.size() && end <= overlap.last; ++end) {
      gathers.insert(all.gathers[end]);
    }
    for (; begin < overlap.first; ++begin) {
      gathers.erase(gathers.find(all.gathers[begin]));
    }
    most = std::max(most, overlap.bytes + (gathers.empty() ? 0 : *gathers.rbegin()));
  }
  return most;
}

}  // namespace

bool needs_reordering(const ho::GroupMap& groups) {
  return !groups.equal_groups();
}

StateShape state_shape(const Shards& shards) {
  const RunnerConfig& config = shards.config;
  StateShape shape;
  shape.strategy = config.strategy;
  shape.frozen = config.frozen;
  shape.parameter_dtype = config.parameter_dtype;
  shape.gradient_dtype = sent_dtype(config);
  shape.written_dtype = config.gradient_dtype;
  shape.sum_dtype = sum_dtype(config);
  const auto own = static_cast<uint32_t>(config.optimizer_states.size());
  shape.optimizer_arrays = 1 + (config.optimizer ? own : state_count(config.rule));
  shape.gathered_buffers = config.prefetch + 1;
  shape.output_buffers = kGradientBuffers;
  shape.pack_buffers = kPackBuffers;
  shape.merged_elements = shards.bucket_offsets.most_elements;
  return shape;
}

MemoryUse predicted_use(const Shards& shards, const StepPlan& plan) {
  const StateShape shape = state_shape(shards);
  MemoryUse use = needed(shape, shards.layouts, shards.self());
  use[Purpose::kScratch] += reordering_bytes(plan, shards.layouts, shards.domains->groups(), shape);
  return use;
}

ho::Result<uint64_t> most_bytes(const Shards& shards,
                                StepShape step,
                                const Strategy& strategy,
                                Scope frozen,
                                const ho::GroupMap& groups) {
  step.strategy = strategy;
  step.frozen = frozen;
  step.micro_batches = std::min(step.micro_batches, 2U);  // more of them need nothing more
  HORING_ASSIGN(const StepPlan plan, build_step_plan(step));
  StateShape shape = state_shape(shards);
  shape.strategy = strategy;
  shape.frozen = frozen;
  return needed_at_most(shape, shards.layouts, groups.world_size()) +
         reordering_bytes(plan, shards.layouts, groups, shape);
}

ho::Status enforce_budget(const Shards& shards,
                          const StepShape& step,
                          ho_comm* comm,
                          const ho::GroupMap& groups,
                          uint64_t timeout_ms) {
  const RunnerConfig& config = shards.config;
  const auto bytes_of = [&](const Strategy& strategy) {
    return most_bytes(shards, step, strategy, config.frozen, groups);
  };
  HORING_ASSIGN(const uint64_t budget, smallest_budget(comm, config.budget_bytes, timeout_ms));
  HORING_ASSIGN(const uint64_t most, bytes_of(config.strategy));
  if (budget == 0 || most <= budget) {
    return {};
  }
  std::string fitting;
  for (const Strategy& strategy : all_strategies()) {
    HORING_ASSIGN(const uint64_t bytes, bytes_of(strategy));
    if (bytes <= budget) {
      fitting +=
          (fitting.empty() ? "" : ", ") + letters(strategy) + " (" + std::to_string(bytes) + ")";
    }
  }
  return {ho::StatusCode::kOutOfMemory,
          "strategy " + letters(config.strategy) + " needs " + std::to_string(most) +
              " bytes on the fullest rank, the budget is " + std::to_string(budget) + ": " +
              (fitting.empty() ? "none of the 14 strategies fits; more ranks, fewer units gathered "
                                 "ahead, 16-bit gradients or narrow_sums would need less"
                               : "these would fit (bytes): " + fitting)};
}

}  // namespace paro
