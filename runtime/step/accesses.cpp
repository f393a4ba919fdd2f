#include "step/accesses.hpp"

namespace paro {
namespace {

bool is_reduction_of_micro_batch(const Action& action) {
  return action.content == Content::kGradients && action.phase == Phase::kBackward &&
         action.act == Act::kReduceScatter;
}

// Goes through the actions in order: what is over of a step numbers its buffers.
class Accesses {
 public:
  explicit Accesses(const StepShape& shape) : shape_(shape) {}

  [[nodiscard]] std::vector<Access> next(const Action& action) {
    std::vector<Access> accesses = of(action);
    slots_ += action.act == Act::kForward || action.act == Act::kBackward ? 1U : 0U;
    reductions_ += is_reduction_of_micro_batch(action) ? 1U : 0U;
    merged_ += is_merged(action) ? 1U : 0U;
    return accesses;
  }

 private:
  static constexpr bool kReads = false;
  static constexpr bool kWrites = true;

  [[nodiscard]] Buffer gathered(Store store) const {
    return {store, slots_ % (shape_.prefetch + 1)};
  }
  [[nodiscard]] Buffer output() const {
    return {Store::kBackwardOutput, reductions_ % kGradientBuffers};
  }

  [[nodiscard]] std::vector<Access> of(const Action& action) const {
    switch (action.act) {
      case Act::kForward:
      case Act::kBackward:
        return of_computation(action);
      case Act::kGather:
        return of_gather(action);
      case Act::kReduceScatter:
      case Act::kAllReduce:
        return of_reduction(action);
      case Act::kAgree:
        return of_agreement();
      case Act::kUpdate:
        break;
    }
    return {{{Store::kSum, action.unit}, kWrites},
            {{Store::kMaster, action.unit}, kWrites},
            {{Store::kParameters, action.unit}, kWrites},
            {{Store::kDecision, 0}, kReads}};
  }

  [[nodiscard]] std::vector<Access> of_computation(const Action& action) const {
    const uint32_t home = home_of(shape_.units, action.unit);
    std::vector<Access> accesses{{gathered(Store::kGathered), kReads},
                                 {gathered(Store::kGatheredFrozen), kReads}};
    if (shape_.strategy.parameters == Scope::kReplicated) {
      accesses.push_back({{Store::kParameters, home}, kReads});
    }
    if (action.act == Act::kBackward && shape_.units[home].trained > 0) {
      const bool own = shape_.strategy.gradients == Scope::kReplicated;
      accesses.push_back({own ? Buffer{Store::kSum, home} : output(), kWrites});
    }
    return accesses;
  }

  [[nodiscard]] std::vector<Access> of_gather(const Action& action) const {
    const Buffer parameters{Store::kParameters, action.unit};
    if (action.phase == Phase::kSyncP) {
      return {{parameters, kWrites}};
    }
    if (action.content == Content::kFrozen) {  // read where nothing writes
      return {{gathered(Store::kGatheredFrozen), kWrites}};
    }
    return {{parameters, kReads}, {gathered(Store::kGathered), kWrites}};
  }

  [[nodiscard]] std::vector<Access> of_reduction(const Action& action) const {
    std::vector<Access> accesses;
    if (is_reduction_of_micro_batch(action)) {
      accesses.push_back({output(), kWrites});  // sums are in place
    }
    if (is_merged(action)) {
      accesses.push_back({{Store::kPack, merged_ % kPackBuffers}, kWrites});
    }
    for (const uint32_t unit : units_of(action)) {
      accesses.push_back({{Store::kSum, unit}, kWrites});
    }
    return accesses;
  }

  [[nodiscard]] std::vector<Access> of_agreement() const {
    std::vector<Access> accesses{{{Store::kDecision, 0}, kWrites}};
    for (uint32_t u = 0; u < shape_.units.size(); ++u) {
      accesses.push_back({{Store::kSum, u}, kReads});
    }
    return accesses;
  }

  const StepShape& shape_;
  uint32_t slots_ = 0;       // of computation
  uint32_t reductions_ = 0;  // of micro-batches
  uint32_t merged_ = 0;      // reductions
};

}  // namespace

std::vector<std::vector<Access>> accesses_of(const StepPlan& plan) {
  Accesses accesses(plan.shape);
  std::vector<std::vector<Access>> by_action;
  by_action.reserve(plan.actions.size());
  for (const Action& action : plan.actions) {
    by_action.push_back(accesses.next(action));
  }
  return by_action;
}

}  // namespace paro
