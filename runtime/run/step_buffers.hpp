// Memory that whole units pass through in a step: gathered for a computation, left by a backward
// pass for a reduction, put together as messages of buckets. There are a few of each kind; which
// one an action uses follows from its place in the plan, and the plan orders their use.
//
// Owner: StepRunner; the ledger outlives it.
#pragma once

#include <vector>

#include "run/shards.hpp"
#include "state/needs.hpp"

namespace paro {

class StepBuffers {
 public:
  explicit StepBuffers(const StepPlan& plan) { follow(plan); }
  // Another plan from now on, of as many buffers. None is in use.
  void follow(const StepPlan& plan);
  // Once.
  [[nodiscard]] ho::Status allocate(Shards& shards, const StateShape& shape);

  // Where a unit's parameters are for a computation, and what is gathered for it goes.
  [[nodiscard]] ElementView gathered(const RunnerConfig& config,
                                     ActionId action,
                                     Content content) const;
  // Where a unit's gradients lie between its backward pass and their reduction.
  [[nodiscard]] ElementView output(const Shards& shards,
                                   const Action& action,
                                   ActionId id,
                                   uint32_t unit) const;
  // Where a backward pass writes a unit's gradients, if they are sent in another type: those above
  // are this one's sums then. Else nullptr.
  [[nodiscard]] std::byte* written() const { return written_.get(); }
  // Room for a merged reduction's messages.
  [[nodiscard]] std::byte* pack(ActionId action) const;
  // A backward pass has no buffer of its own: it adds to this rank's sums itself.
  [[nodiscard]] bool has_outputs() const { return !outputs_.empty(); }

 private:
  // What of a step comes before an action.
  struct Before {
    uint32_t computations = 0;
    uint32_t reductions = 0;  // of micro-batches
    uint32_t merged = 0;      // reductions
  };

  std::vector<Before> before_;  // by action
  std::vector<Buffer> gathered_trained_;
  std::vector<Buffer> gathered_frozen_;
  std::vector<Buffer> outputs_;
  std::vector<Buffer> packs_;
  Buffer written_;
};

}  // namespace paro
