#include "planner/virtual_step.hpp"

#include <algorithm>
#include <vector>

#include "planner/units.hpp"
#include "step/critical_path.hpp"
#include "step/step_plan.hpp"

namespace paro {
namespace {

using Link = ActionCost::Link;

// More would take long to run in virtual time. kMaxLayers layers have at least eight micro-batches
// in it, with as many units that share another's parameters three.
constexpr uint64_t kMaxActions = uint64_t{1} << 16U;
constexpr uint64_t kActionsPerUnit = 7;  // at most, in a micro-batch; fewer than that in the end

// That a step is tried with first: one that begins it, one to see the next one repeat, and an end.
constexpr uint64_t kFewMicroBatches = 4;

// Of a rank's own part.
double update_s(const Strategy& strategy, const PlannerRequest& request) {
  return request.update_s / sharers(strategy.optimizer, request.world);
}

// Seconds of each action of a plan of these units.
class ActionCosts {
 public:
  ActionCosts(const Strategy& strategy, const PlannerRequest& request, const Links& links)
      : request_(request),
        seconds_(request.world, links),
        units_(request),
        parameter_s_(request.compute_s / request.micro_batches /
                     (request.model.parameters + request.model.shared)),
        trained_s_(update_s(strategy, request) / request.model.trainable) {}

  [[nodiscard]] ActionCost of(const Action& action) const {
    switch (action.act) {
      case Act::kForward:
        return {unit_s(action.unit) * request_.forward_share, Link::kNone};
      case Act::kBackward:
        return {unit_s(action.unit) * (1 - request_.forward_share), Link::kNone};
      case Act::kUpdate:
        return {trained_s_ * units_[action.unit].trainable, Link::kNone};
      case Act::kAgree:  // a few bytes
        return {};
      case Act::kGather:
        return collective(action, ho::Collective::kAllGather);
      case Act::kReduceScatter:
        return collective(action, ho::Collective::kReduceScatter);
      case Act::kAllReduce:
        break;
    }
    return collective(action, ho::Collective::kAllReduce);
  }

 private:
  [[nodiscard]] double unit_s(uint32_t unit) const { return parameter_s_ * units_[unit].work; }

  [[nodiscard]] double bytes_of(const Action& action) const {
    const UnitSize& size = units_[action.unit];
    switch (action.content) {
      case Content::kParameters:
        return request_.bytes.parameter * size.trainable;
      case Content::kFrozen:
        return request_.bytes.parameter * (size.parameters - size.trainable);
      case Content::kGradients:
        return request_.bytes.gradient * trained_of(action);
      case Content::kNorm:
        break;
    }
    return 0;
  }

  // Of all units of a bucket.
  [[nodiscard]] double trained_of(const Action& action) const {
    double trained = units_[action.unit].trainable;
    for (const uint32_t unit : action.merged) {
      trained += units_[unit].trainable;
    }
    return trained;
  }

  [[nodiscard]] ActionCost collective(const Action& action, ho::Collective collective) const {
    const double bytes = bytes_of(action);
    switch (action.domain) {
      case Domain::kIntra:
        return on(Link::kIntra, request_.world.group_size, seconds_.intra(collective, bytes));
      case Domain::kInter:
        return on(Link::kInter,
                  request_.world.group_count,
                  seconds_.inter(collective, bytes / request_.world.group_size));
      case Domain::kWorld:
        break;
    }
    const auto links = seconds_.world_links(collective, bytes);
    return on(links.waits_inside ? Link::kIntra : Link::kInter,
              request_.world.ranks(),
              seconds_.world(collective, bytes),
              links.beside);
  }

  // One rank alone launches nothing.
  [[nodiscard]] ActionCost on(Link link, uint32_t ranks, double seconds, double beside = 0) const {
    return {(ranks > 1 ? request_.effects.launch_s : 0) + seconds, link, beside};
  }

  const PlannerRequest& request_;
  CollectiveSeconds seconds_;
  Units units_;
  double parameter_s_;  // forward and backward pass of a parameter
  double trained_s_;    // its update
};

// What is left of a collective where links of the kind `free` take no time: what it takes of the
// other kind.
ActionCost without(Link free, const ActionCost& cost) {
  const Link other = free == Link::kIntra ? Link::kInter : Link::kIntra;
  return {cost.seconds * cost.held(other), other, 0};
}

// A step of which a plan has some micro-batches.
class Run {
 public:
  Run(const StepPlan& plan, const ActionCosts& costs, uint32_t further)
      : plan_(plan), further_(further) {
    costs_.reserve(plan_.actions.size());
    for (const Action& action : plan_.actions) {
      costs_.push_back(costs.of(action));
    }
  }

  // Where links of the kind `free` take no time; kNone: all take theirs.
  double path_s(Link free) {
    std::vector<ActionCost> costs = costs_;
    for (ActionCost& cost : costs) {
      if (free != Link::kNone && cost.link != Link::kNone) {
        cost = without(free, cost);
      }
    }
    const CriticalPath path = critical_path(plan_, costs, further_);
    steady_ = steady_ && path.steady;
    return path.step_s;
  }

  [[nodiscard]] double busy_s(Link link) const {
    double sum = 0;
    for (size_t id = 0; id < costs_.size(); ++id) {
      const bool stands_for_others = further_ > 0 && plan_.actions[id].micro_batch == 1;
      const double times = stands_for_others ? 1 + double{1} * further_ : 1;
      sum += costs_[id].link == link ? costs_[id].seconds * times : 0;
    }
    return sum;
  }

  // Whether the micro-batches that are left out are known to take what they were given.
  [[nodiscard]] bool steady() const { return steady_; }

 private:
  const StepPlan& plan_;
  uint32_t further_;
  std::vector<ActionCost> costs_;
  bool steady_ = true;
};

VirtualStep run_step(Run& run,
                     const Strategy& strategy,
                     const PlannerRequest& request,
                     Gains gains) {
  VirtualStep step;
  step.intra.busy_s = run.busy_s(Link::kIntra);
  step.inter.busy_s = run.busy_s(Link::kInter);
  const double computing = computing_s(strategy, request);
  if (!request.overlap) {
    step.intra.gain_s = step.intra.busy_s;
    step.inter.gain_s = step.inter.busy_s;
    step.step_s = computing + step.intra.busy_s + step.inter.busy_s;
    return step;
  }
  step.step_s = std::max(run.path_s(Link::kNone), computing);  // but for rounding it is no less
  if (gains == Gains::kYes) {
    step.intra.gain_s = step.step_s - run.path_s(Link::kIntra);
    step.inter.gain_s = step.step_s - run.path_s(Link::kInter);
  }
  return step;
}

}  // namespace

double computing_s(const Strategy& strategy, const PlannerRequest& request) {
  return request.compute_s + update_s(strategy, request);
}

ho::Result<VirtualStep> virtual_step(const Strategy& strategy,
                                     const PlannerRequest& request,
                                     const Links& links,
                                     Gains gains) {
  const ActionCosts costs(strategy, request, links);
  const uint64_t most = std::min<uint64_t>(
      kMaxActions / (kActionsPerUnit * unit_count(request)) - 1, request.micro_batches);
  for (uint64_t few = std::min(most, kFewMicroBatches);; few = std::min(most, 2 * few)) {
    const auto planned = static_cast<uint32_t>(few);
    HORING_ASSIGN(const StepPlan plan, build_step_plan(shape_of(strategy, request, planned)));
    Run run(plan, costs, request.micro_batches - planned);
    const VirtualStep step = run_step(run, strategy, request, gains);
    if (run.steady() || few == most) {
      return step;
    }
  }
}

}  // namespace paro
