#include "step/action_cost.hpp"

namespace paro {
namespace {

using Link = ActionCost::Link;

// Of an element, in its forward pass's time. Of those tried for collectives these lengthened steps
// least where they were wrong (ADR 40).
constexpr double kForward = 1;
constexpr double kBackward = 2;
constexpr double kUpdate = 0.1;
constexpr double kIntra = 0.1;
constexpr double kInter = 0.5;

double elements_of(const StepPlan& plan, const Action& action) {
  const bool computes_with_all = action.act == Act::kForward || action.act == Act::kBackward;
  const bool frozen = action.content == Content::kFrozen;
  double elements = 0;
  for (const uint32_t unit : units_of(action)) {
    const UnitShape& shape = plan.shape.units[home_of(plan.shape.units, unit)];
    elements += static_cast<double>(frozen ? 0 : shape.trained) +
                static_cast<double>(frozen || computes_with_all ? shape.frozen : 0);
  }
  return elements;
}

ActionCost assumed(const StepPlan& plan, const Action& action) {
  const double elements = elements_of(plan, action);
  switch (action.act) {
    case Act::kForward:
      return {elements * kForward, Link::kNone};
    case Act::kBackward:
      return {elements * kBackward, Link::kNone};
    case Act::kUpdate:
      return {elements * kUpdate, Link::kNone};
    case Act::kAgree:
      return {0, Link::kInter};
    case Act::kGather:
    case Act::kReduceScatter:
    case Act::kAllReduce:
      break;
  }
  const double moved = action.act == Act::kAllReduce ? 2 * elements : elements;
  return action.domain == Domain::kIntra ? ActionCost{moved * kIntra, Link::kIntra}
                                         : ActionCost{moved * kInter, Link::kInter};
}

}  // namespace

std::vector<ActionCost> assumed_costs(const StepPlan& plan) {
  std::vector<ActionCost> costs;
  costs.reserve(plan.actions.size());
  for (const Action& action : plan.actions) {
    costs.push_back(assumed(plan, action));
  }
  return costs;
}

}  // namespace paro
