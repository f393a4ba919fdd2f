#include "state/needs.hpp"

#include <algorithm>

namespace paro {

uint64_t largest_trained(const std::vector<UnitLayout>& layouts) {
  uint64_t most = 0;
  for (const UnitLayout& layout : layouts) {
    most = std::max(most, layout.trained.padded_count());
  }
  return most;
}

uint64_t largest_frozen(const std::vector<UnitLayout>& layouts) {
  uint64_t most = 0;
  for (const UnitLayout& layout : layouts) {
    most = std::max(most, layout.frozen.padded_count());
  }
  return most;
}

uint32_t output_buffers_of(const StateShape& shape) {
  if (shape.strategy.gradients != Scope::kReplicated) {
    return shape.output_buffers;
  }
  return shape.sum_dtype == shape.gradient_dtype ? 0 : 1;
}

uint64_t output_elements_of(const StateShape& shape, const std::vector<UnitLayout>& layouts) {
  const uint64_t unit = largest_trained(layouts);
  const bool splits = shape.strategy.gradients != Scope::kReplicated;
  return splits ? std::max(unit, shape.merged_elements) : unit;
}

uint64_t written_bytes_of(const StateShape& shape, const std::vector<UnitLayout>& layouts) {
  const ho::DType written = shape.written_dtype.value_or(shape.gradient_dtype);
  return written == shape.gradient_dtype ? 0 : largest_trained(layouts) * ho::size_bytes(written);
}

MemoryUse needed(const StateShape& shape,
                 const std::vector<UnitLayout>& layouts,
                 ho::GlobalRank rank) {
  const Strategy& strategy = shape.strategy;
  const uint64_t parameter = ho::size_bytes(shape.parameter_dtype);
  const uint64_t gradient = ho::size_bytes(shape.gradient_dtype);
  const uint64_t sum = ho::size_bytes(shape.sum_dtype);
  MemoryUse use;
  for (const UnitLayout& layout : layouts) {
    const auto trained = [&](Scope scope) { return layout.trained.owned_count(scope, rank); };
    use[Purpose::kParameters] += trained(strategy.parameters) * parameter;
    use[Purpose::kParameters] += layout.frozen.owned_count(shape.frozen, rank) * parameter;
    use[Purpose::kGradients] += trained(strategy.gradients) * sum;
    use[Purpose::kOptimizer] +=
        trained(strategy.optimizer) * sizeof(float) * shape.optimizer_arrays;
  }
  uint64_t gathered = strategy.parameters == Scope::kReplicated ? 0 : largest_trained(layouts);
  gathered += shape.frozen == Scope::kReplicated ? 0 : largest_frozen(layouts);
  use[Purpose::kGathered] = gathered * parameter * shape.gathered_buffers;
  use[Purpose::kOutput] = output_elements_of(shape, layouts) * gradient * output_buffers_of(shape) +
                          written_bytes_of(shape, layouts);
  use[Purpose::kScratch] = shape.merged_elements * gradient * shape.pack_buffers;
  return use;
}

uint64_t needed_at_most(const StateShape& shape,
                        const std::vector<UnitLayout>& layouts,
                        uint32_t world_size) {
  uint64_t most = 0;
  for (uint32_t r = 0; r < world_size; ++r) {
    most = std::max(most, needed(shape, layouts, ho::GlobalRank(r)).total());
  }
  return most;
}

}  // namespace paro
