#include "step/traffic.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace paro {
namespace {

// The members on each node that the set spans, in the nodes' order: a communicator that is split
// from another keeps it, whatever the keys.
std::map<ho::GroupIndex, std::vector<size_t>> by_node(const Participants& set,
                                                      const ho::GroupMap& nodes) {
  std::map<ho::GroupIndex, std::vector<size_t>> members;
  for (size_t i = 0; i < set.members.size(); ++i) {
    members[nodes.group_of(set.members[i])].push_back(i);
  }
  for (auto& [node, here] : members) {
    std::sort(here.begin(), here.end(), [&](size_t a, size_t b) {
      return nodes.group_rank_of(set.members[a]) < nodes.group_rank_of(set.members[b]);
    });
  }
  return members;
}

// Elements of members beyond the rails that the set has.
uint64_t without_rail(const Participants& set, const ho::GroupMap& nodes) {
  const auto members = by_node(set, nodes);
  size_t rails = nodes.rail_count() < nodes.smallest_group() ? nodes.rail_count() : SIZE_MAX;
  for (const auto& [node, here] : members) {
    rails = std::min(rails, here.size());
  }
  uint64_t count = 0;
  for (const auto& [node, here] : members) {
    for (size_t local = rails; local < here.size() && members.size() > 1; ++local) {
      count += set.parts[here[local]];
    }
  }
  return count;
}

Traffic of_set(const Participants& set, const ho::GroupMap& nodes, uint64_t bytes, uint64_t trees) {
  const uint64_t spanned = by_node(set, nodes).size();
  return {(set.members.size() - spanned) * bytes * trees, (spanned - 1) * bytes * trees};
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
      by_action_[id] = of_set({world_order(groups), {}, {}}, nodes, kAgreeBytes, trees);
      continue;
    }
    const uint64_t element =
        action.content == Content::kGradients ? bytes.gradient : bytes.parameter;
    for (const uint32_t unit : units_of(action)) {
      for (const Participants& set :
           participants(partition_of(layouts, action, unit), groups, action.domain)) {
        by_action_[id] += of_set(set, nodes, set.range.count() * element, trees);
        if (action.act == Act::kReduceScatter) {
          by_action_[id].intra_bytes += without_rail(set, nodes) * element;
        }
      }
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
