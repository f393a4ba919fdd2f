#include "step/traffic.hpp"

#include <set>

namespace paro {
namespace {

Traffic of_set(const std::vector<ho::GlobalRank>& members,
               const ho::GroupMap& nodes,
               uint64_t bytes,
               uint64_t trees) {
  std::set<ho::GroupIndex> spanned;
  for (const ho::GlobalRank rank : members) {
    spanned.insert(nodes.group_of(rank));
  }
  return {(members.size() - spanned.size()) * bytes * trees, (spanned.size() - 1) * bytes * trees};
}

uint64_t trees_of(Act act) {
  return act == Act::kAllReduce || act == Act::kAgree ? 2 : 1;
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  intra_bytes += other.intra_bytes;
  inter_bytes += other.inter_bytes;
  return *this;
}

StepTraffic::StepTraffic(const StepPlan& plan,
                         const std::vector<UnitLayout>& layouts,
                         const ho::GroupMap& groups,
                         const ho::GroupMap& nodes,
                         const ElementBytes& bytes)
    : by_action_(plan.actions.size()) {
  for (size_t id = 0; id < plan.actions.size(); ++id) {
    const Action& action = plan.actions[id];
    phases_.push_back(action.phase);
    if (!is_collective(action.act)) {
      continue;
    }
    const uint64_t trees = trees_of(action.act);
    if (action.act == Act::kAgree) {
      by_action_[id] = of_set(world_order(groups), nodes, kAgreeBytes, trees);
      continue;
    }
    const uint64_t element =
        action.content == Content::kGradients ? bytes.gradient : bytes.parameter;
    for (const Participants& set :
         participants(partition_of(layouts, action), groups, action.domain)) {
      by_action_[id] += of_set(set.members, nodes, set.range.count() * element, trees);
    }
  }
}

Traffic StepTraffic::of(Phase phase) const {
  Traffic sum;
  for (size_t id = 0; id < by_action_.size(); ++id) {
    if (phases_[id] == phase) {
      sum += by_action_[id];
    }
  }
  return sum;
}

Traffic StepTraffic::total() const {
  Traffic sum;
  for (const Traffic& traffic : by_action_) {
    sum += traffic;
  }
  return sum;
}

}  // namespace paro
