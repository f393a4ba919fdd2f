#include "cost/step_time.hpp"

#include <algorithm>
#include <cmath>

namespace paro {
namespace {

class Terms {
 public:
  Terms(const WorldShape& world, const Links& links) : world_(world), links_(links) {}

  // Bringing `bytes` together at a scope, or spreading sums of them over it.
  [[nodiscard]] double at_scope(Scope scope, double bytes) const {
    switch (scope) {
      case Scope::kReplicated:
        return 0;
      case Scope::kGroup:
        return intra_seconds(bytes, world_, links_);
      case Scope::kWorld:
        break;
    }
    return world_seconds(bytes, world_, links_);
  }

  // One rank's part of a group's copy, reduced or gathered between groups.
  [[nodiscard]] double between_groups(double bytes) const {
    return inter_seconds(bytes / world_.group_size, world_, links_);
  }

  [[nodiscard]] double sync_g(Scope from, Scope to, double bytes) const {
    if (from == Scope::kReplicated) {
      switch (to) {
        case Scope::kReplicated:
          return 2 * world_seconds(bytes, world_, links_);
        case Scope::kGroup:
          return intra_seconds(bytes, world_, links_) + 2 * between_groups(bytes);
        case Scope::kWorld:
          return world_seconds(bytes, world_, links_);
      }
    }
    if (from == Scope::kGroup) {
      return (to == Scope::kGroup ? 2 : 1) * between_groups(bytes);
    }
    return 0;
  }

  [[nodiscard]] double sync_p(Scope from, Scope to, double bytes) const {
    if (from == to) {
      return 0;
    }
    return to == Scope::kGroup ? between_groups(bytes) : at_scope(from, bytes);
  }

 private:
  const WorldShape& world_;
  const Links& links_;
};

}  // namespace

StepSeconds step_seconds(const Strategy& strategy,
                         const ModelSize& model,
                         const BytesPerParameter& bytes,
                         const WorldShape& world,
                         const Links& links) {
  const Terms terms(world, links);
  const double gathered = bytes.parameter * (model.parameters + model.shared);
  const double reduced = bytes.gradient * (model.trainable + model.shared_trainable);
  const double gradients = bytes.gradient * model.trainable;
  StepSeconds seconds;
  seconds.parameters = 2 * terms.at_scope(strategy.parameters, gathered);
  seconds.gradients = terms.at_scope(strategy.gradients, reduced);
  seconds.sync_g = terms.sync_g(strategy.gradients, strategy.optimizer, gradients);
  seconds.sync_p =
      terms.sync_p(strategy.optimizer, strategy.parameters, bytes.parameter * model.trainable);
  return seconds;
}

double paper_step_seconds(double communication_s, double computation_s) {
  return std::max(communication_s, computation_s);
}

double throughput_indicator(double step_s) {
  return std::log(1 / step_s);
}

}  // namespace paro
