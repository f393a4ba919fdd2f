#include "cost/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paro {
namespace {

using ho::Collective;

// Seconds, or bytes somewhere: what a collective has of it is `Collectives`' to say.
template <typename Collectives>
class Terms {
 public:
  Terms(const WorldShape& world, Collectives seconds, double pieces)
      : group_size_(world.group_size), pieces_(pieces), seconds_(std::move(seconds)) {}

  // Bringing `bytes` together at a scope, or spreading sums of them over it.
  [[nodiscard]] double at_scope(Scope scope, Collective collective, double bytes) const {
    switch (scope) {
      case Scope::kReplicated:
        return 0;
      case Scope::kGroup:
        return intra(collective, bytes);
      case Scope::kWorld:
        break;
    }
    return world(collective, bytes);
  }

  [[nodiscard]] double sync_g(Scope from, Scope to, double bytes) const {
    if (from == Scope::kReplicated) {
      switch (to) {
        case Scope::kReplicated:
          return world(Collective::kAllReduce, bytes);
        case Scope::kGroup:
          return intra(Collective::kReduceScatter, bytes) +
                 between_groups(Collective::kAllReduce, bytes);
        case Scope::kWorld:
          return world(Collective::kReduceScatter, bytes);
      }
    }
    if (from == Scope::kGroup) {
      return between_groups(
          to == Scope::kGroup ? Collective::kAllReduce : Collective::kReduceScatter, bytes);
    }
    return 0;
  }

  [[nodiscard]] double sync_p(Scope from, Scope to, double bytes) const {
    if (from == to) {
      return 0;
    }
    return to == Scope::kGroup ? between_groups(Collective::kAllGather, bytes)
                               : at_scope(from, Collective::kAllGather, bytes);
  }

 private:
  [[nodiscard]] double intra(Collective collective, double bytes) const {
    return pieces_ * seconds_.intra(collective, bytes / pieces_);
  }
  // One rank's part of a group's copy, reduced or gathered between groups.
  [[nodiscard]] double between_groups(Collective collective, double bytes) const {
    return pieces_ * seconds_.inter(collective, bytes / pieces_ / group_size_);
  }
  [[nodiscard]] double world(Collective collective, double bytes) const {
    return pieces_ * seconds_.world(collective, bytes / pieces_);
  }

  double group_size_;
  double pieces_;
  Collectives seconds_;
};

template <typename Collectives>
StepSeconds step_terms(const Strategy& strategy,
                       const StepVolumes& volumes,
                       const Terms<Collectives>& terms) {
  StepSeconds seconds;
  seconds.parameters =
      terms.at_scope(strategy.parameters, Collective::kAllGather, volumes.gathered);
  seconds.gradients =
      terms.at_scope(strategy.gradients, Collective::kReduceScatter, volumes.reduced);
  seconds.sync_g = terms.sync_g(strategy.gradients, strategy.optimizer, volumes.gradients);
  seconds.sync_p = terms.sync_p(strategy.optimizer, strategy.parameters, volumes.updated);
  return seconds;
}

}  // namespace

StepVolumes step_volumes(const ModelSize& model, const BytesPerParameter& bytes) {
  return {2 * bytes.parameter * (model.parameters + model.shared),
          bytes.gradient * (model.trainable + model.shared_trainable),
          bytes.gradient * model.trainable,
          bytes.parameter * model.trainable};
}

StepSeconds step_seconds(const Strategy& strategy,
                         const ModelSize& model,
                         const BytesPerParameter& bytes,
                         const WorldShape& world,
                         const Links& links,
                         double pieces) {
  StepVolumes volumes = step_volumes(model, bytes);
  volumes.gathered /= 2;  // two collectives, each with its latencies
  StepSeconds seconds =
      step_terms(strategy, volumes, Terms(world, CollectiveSeconds(world, links), pieces));
  seconds.parameters *= 2;
  return seconds;
}

StepSeconds level_bytes(const Strategy& strategy,
                        const StepVolumes& volumes,
                        const WorldShape& world,
                        const Links& links,
                        LevelBytes::Over over) {
  return step_terms(strategy, volumes, Terms(world, LevelBytes(world, links, over), 1));
}

double paper_step_seconds(double communication_s, double computation_s) {
  return std::max(communication_s, computation_s);
}

double throughput_indicator(double step_s) {
  return std::log(1 / step_s);
}

}  // namespace paro
