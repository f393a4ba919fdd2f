// Bytes that a rank will need, before anything is allocated. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/dtype.hpp"
#include "layout/unit_layout.hpp"
#include "state/memory.hpp"
#include "strategy/strategy.hpp"

namespace paro {

struct StateShape {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;
  ho::DType parameter_dtype = ho::DType::kFloat32;
  ho::DType gradient_dtype = ho::DType::kFloat32;  // that gradients are sent in
  std::optional<ho::DType> written_dtype{};        // that a backward pass writes; none: the same
  ho::DType sum_dtype = ho::DType::kFloat32;  // that gradients are summed in over micro-batches
  uint32_t optimizer_arrays = 3;              // fp32: the master, and what the rule keeps beside it
  uint32_t gathered_buffers = 2;              // where parameters are split
  uint32_t output_buffers = 2;                // where gradients are split
  uint32_t pack_buffers = 2;                  // for messages of buckets
  uint64_t merged_elements = 0;               // of the largest bucket of several units
};

// Whole units' gradients as a backward pass writes them: none where it adds to the sums itself.
[[nodiscard]] uint32_t output_buffers_of(const StateShape& shape);
// Elements of each: of a whole bucket where they are kept for its reduction.
[[nodiscard]] uint64_t output_elements_of(const StateShape& shape,
                                          const std::vector<UnitLayout>& layouts);
// Of a unit's gradients as a backward pass writes them, where they are sent in another type.
[[nodiscard]] uint64_t written_bytes_of(const StateShape& shape,
                                        const std::vector<UnitLayout>& layouts);

// Without what reorders unequal groups' parts: that depends on the collectives.
[[nodiscard]] MemoryUse needed(const StateShape& shape,
                               const std::vector<UnitLayout>& layouts,
                               ho::GlobalRank rank);

// The largest total of any rank.
[[nodiscard]] uint64_t needed_at_most(const StateShape& shape,
                                      const std::vector<UnitLayout>& layouts,
                                      uint32_t world_size);

// Elements of the largest unit; each gathered buffer holds one.
[[nodiscard]] uint64_t largest_trained(const std::vector<UnitLayout>& layouts);
[[nodiscard]] uint64_t largest_frozen(const std::vector<UnitLayout>& layouts);

}  // namespace paro
