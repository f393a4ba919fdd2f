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
  return {bytes.parameter * model.parameters / sharers(strategy.parameters, world),
          bytes.gradient * model.trainable / sharers(strategy.gradients, world),
          bytes.optimizer * model.trainable / sharers(strategy.optimizer, world)};
}

}  // namespace paro
