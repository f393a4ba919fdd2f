#include "cost/step_time.hpp"

#include <algorithm>
#include <cmath>

namespace paro {
namespace {

using ho::Collective;

// Seconds, or bytes somewhere: what a collective has of it is `Collectives`' to say.
template <typename Collectives>
class Terms {
 public:
  Terms(const WorldShape& world, const Links& links, double pieces)
      : group_size_(world.group_size), pieces_(pieces), seconds_(world, links) {}

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
                       const ModelSize& model,
                       const BytesPerParameter& bytes,
                       const Terms<Collectives>& terms) {
  const double gathered = bytes.parameter * (model.parameters + model.shared);
  const double reduced = bytes.gradient * (model.trainable + model.shared_trainable);
  const double gradients = bytes.gradient * model.trainable;
  StepSeconds seconds;
  seconds.parameters = 2 * terms.at_scope(strategy.parameters, Collective::kAllGather, gathered);
  seconds.gradients = terms.at_scope(strategy.gradients, Collective::kReduceScatter, reduced);
  seconds.sync_g = terms.sync_g(strategy.gradients, strategy.optimizer, gradients);
  seconds.sync_p =
      terms.sync_p(strategy.optimizer, strategy.parameters, bytes.parameter * model.trainable);
  return seconds;
}

}  // namespace

StepSeconds step_seconds(const Strategy& strategy,
                         const ModelSize& model,
                         const BytesPerParameter& bytes,
                         const WorldShape& world,
                         const Links& links,
                         double pieces) {
  return step_terms(strategy, model, bytes, Terms<CollectiveSeconds>(world, links, pieces));
}

StepSeconds outermost_bytes(const Strategy& strategy,
                            const ModelSize& model,
                            const BytesPerParameter& bytes,
                            const WorldShape& world,
                            const Links& links) {
  return step_terms(strategy, model, bytes, Terms<OutermostBytes>(world, links, 1));
}

double paper_step_seconds(double communication_s, double computation_s) {
  return std::max(communication_s, computation_s);
}

double throughput_indicator(double step_s) {
  return std::log(1 / step_s);
}

}  // namespace paro
