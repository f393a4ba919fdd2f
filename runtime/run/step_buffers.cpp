#include "run/step_buffers.hpp"

#include <utility>

namespace paro {

void StepBuffers::follow(const StepPlan& plan) {
  before_.clear();
  before_.reserve(plan.actions.size());
  Before before;
  for (const Action& action : plan.actions) {
    before_.push_back(before);
    before.computations += action.act == Act::kForward || action.act == Act::kBackward ? 1U : 0U;
    before.reductions +=
        action.act == Act::kReduceScatter && action.phase == Phase::kBackward ? 1U : 0U;
    before.merged += is_merged(action) ? 1U : 0U;
  }
}

ho::Status StepBuffers::allocate(Shards& shards, const StateShape& shape) {
  const auto make = [&](std::vector<Buffer>& into,
                        Purpose purpose,
                        uint32_t count,
                        uint64_t bytes) -> ho::Status {
    for (uint32_t i = 0; i < count; ++i) {
      HORING_ASSIGN(Buffer buffer, shards.ledger.allocate(purpose, bytes));
      into.push_back(std::move(buffer));
    }
    return {};
  };
  const auto gathered = [&](std::vector<Buffer>& into, Scope scope, uint64_t elements) {
    const uint64_t bytes = elements * ho::size_bytes(shape.parameter_dtype);
    return make(
        into, Purpose::kGathered, shape.gathered_buffers, scope == Scope::kReplicated ? 0 : bytes);
  };
  const std::vector<UnitLayout>& layouts = shards.layouts;
  HORING_TRY(gathered(gathered_trained_, shape.strategy.parameters, largest_trained(layouts)));
  HORING_TRY(gathered(gathered_frozen_, shape.frozen, largest_frozen(layouts)));
  const uint64_t gradient = ho::size_bytes(shape.gradient_dtype);
  HORING_TRY(make(packs_, Purpose::kScratch, kPackBuffers, shape.merged_elements * gradient));
  if (const uint64_t bytes = written_bytes_of(shape, layouts); bytes > 0) {
    HORING_ASSIGN(written_, shards.ledger.allocate(Purpose::kOutput, bytes));
  }
  return make(outputs_,
              Purpose::kOutput,
              output_buffers_of(shape),
              output_elements_of(shape, layouts) * gradient);
}

ElementView StepBuffers::gathered(const RunnerConfig& config,
                                  ActionId action,
                                  Content content) const {
  const auto& buffers = content == Content::kFrozen ? gathered_frozen_ : gathered_trained_;
  const uint32_t buffer = before_[action.at()].computations % (config.prefetch + 1);
  return {buffers[buffer].get(), config.parameter_dtype};
}

ElementView StepBuffers::output(const Shards& shards,
                                const Action& action,
                                ActionId id,
                                uint32_t unit) const {
  const ho::DType dtype = sent_dtype(shards.config);
  if (shards.config.strategy.gradients == Scope::kReplicated) {  // not kept for a reduction
    return {outputs_.front().get(), dtype};
  }
  // Of a unit that shares another's it is a bucket of its own.
  const uint64_t offset = action.shared ? 0 : shards.bucket_offsets.offsets[unit];
  const Buffer& buffer = outputs_[before_[id.at()].reductions % kGradientBuffers];
  return {buffer.get() + offset * ho::size_bytes(dtype), dtype};
}

std::byte* StepBuffers::pack(ActionId action) const {
  return packs_[before_[action.at()].merged % kPackBuffers].get();
}

}  // namespace paro
