// What is said of a step that is left out because a gradient is not finite.
//
// A sum does not tell whose share of it spoilt it. So each rank looks at what it computed before
// that is reduced, and the ranks compare what they found when a step is left out.
//
// Owner: StepRunner, on its thread; anew for each step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/shards.hpp"

namespace paro {

class NotFiniteRecord {
 public:
  // Before a reduction of what this rank computed, in buffers of the action's units. What is found
  // stays in the shards' control memory.
  void look_at_own(const Shards& shards,
                   const Action& action,
                   const std::vector<ElementView>& buffers_of_units,
                   uint32_t micro_batches);
  // Collective, where all ranks leave a step out, of whose parts this rank has a copy: a line in
  // rank 0's log, a warning unless the loss scale `shrinks`; what the norm is, infinite or no
  // number.
  [[nodiscard]] ho::Result<double> compare(const Shards& shards,
                                           const ControlMemory::Parts& parts,
                                           const std::string& step,
                                           bool shrinks) const;

 private:
  // Elements that were looked at, counted on from one buffer to the next.
  struct Looked {
    uint64_t first = 0;
    uint64_t unit = 0;
    uint64_t micro_batch = 0;
    uint64_t when = 0;
  };
  // As ranks send it; of the sums that this rank holds what begins with sum_.
  struct Found {
    uint64_t when = UINT64_MAX;  // this rank computed it: smaller is earlier; none
    uint64_t unit = 0;
    uint64_t element = 0;
    uint64_t micro_batch = 0;
    uint64_t nan = 0;
    uint64_t sum_unit = UINT64_MAX;  // none
    uint64_t sum_element = 0;
    uint64_t sum_nan = 0;  // any is
  };
  // "" if nobody knows of any.
  [[nodiscard]] static std::string cause_of(const RunnerConfig& config,
                                            std::span<const Found> all,
                                            std::span<const ho::GlobalRank> ranks);

  // In this rank's own gradients, and in the sums that it holds.
  [[nodiscard]] Found found_in(const RunnerConfig& config, const ControlMemory::Parts& parts) const;

  std::vector<Looked> looked_;
  uint64_t looked_elements_ = 0;
};

}  // namespace paro
