#include "cost/memory.hpp"

namespace paro {

double sharers(Scope scope, const WorldShape& world) {
  switch (scope) {
    case Scope::kReplicated:
      return 1;
    case Scope::kGroup:
      return world.group_size;
    case Scope::kWorld:
      break;
  }
  return world.ranks();
}

StateBytes state_bytes(const Strategy& strategy,
                       const ModelSize& model,
                       const BytesPerParameter& bytes,
                       const WorldShape& world) {
  const double gradient = bytes.gradient_sum > 0 ? bytes.gradient_sum : bytes.gradient;
  return {bytes.parameter * model.parameters / sharers(strategy.parameters, world),
          gradient * model.trainable / sharers(strategy.gradients, world),
          bytes.optimizer * model.trainable / sharers(strategy.optimizer, world)};
}

}  // namespace paro
