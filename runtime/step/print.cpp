#include "step/step_plan.hpp"

namespace paro {
namespace {

std::string list(std::string_view title, const std::vector<ActionId>& ids) {
  std::string text;
  for (const ActionId id : ids) {
    text += (text.empty() ? " " + std::string(title) + " " : ",") + std::to_string(id.value());
  }
  return text;
}

// "unit 3 (head)", "units 3,2,1 (head to embedding)"
std::string names(const StepPlan& plan, const Action& action) {
  const auto& units = plan.shape.units;
  std::string text = (is_merged(action) ? "units " : "unit ") + std::to_string(action.unit);
  for (const uint32_t unit : action.merged) {
    text += "," + std::to_string(unit);
  }
  text += " (" + units[action.unit].name;
  text += action.shared ? ", shared" : "";
  return text + (is_merged(action) ? " to " + units[action.merged.back()].name : "") + ")";
}

}  // namespace

bool is_merged(const Action& action) {
  return !action.merged.empty();
}

std::vector<uint32_t> units_of(const Action& action) {
  std::vector<uint32_t> units{action.unit};
  units.insert(units.end(), action.merged.begin(), action.merged.end());
  return units;
}

bool moves_parts_of_world(const Action& action) {
  return action.domain == Domain::kWorld &&
         (action.act == Act::kGather || action.act == Act::kReduceScatter);
}

bool is_collective(Act act) {
  return act == Act::kGather || act == Act::kReduceScatter || act == Act::kAllReduce ||
         act == Act::kAgree;
}

std::string_view to_string(Act act) {
  switch (act) {
    case Act::kForward:
      return "forward";
    case Act::kBackward:
      return "backward";
    case Act::kGather:
      return "all_gather";
    case Act::kReduceScatter:
      return "reduce_scatter";
    case Act::kAllReduce:
      return "all_reduce";
    case Act::kAgree:
      return "agree";
    case Act::kUpdate:
      break;
  }
  return "update";
}

std::string_view to_string(Domain domain) {
  switch (domain) {
    case Domain::kIntra:
      return "intra";
    case Domain::kInter:
      return "inter";
    case Domain::kWorld:
      break;
  }
  return "world";
}

std::string_view to_string(Content content) {
  switch (content) {
    case Content::kParameters:
      return "parameters";
    case Content::kFrozen:
      return "frozen parameters";
    case Content::kGradients:
      return "gradients";
    case Content::kNorm:
      break;
  }
  return "norm and flags";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kSyncG:
      return "sync-g";
    case Phase::kUpdate:
      return "update";
    case Phase::kSyncP:
      break;
  }
  return "sync-p";
}

std::string_view to_string(Channel channel) {
  switch (channel) {
    case Channel::kCompute:
      return "compute";
    case Channel::kGathers:
      return "gathers";
    case Channel::kReductions:
      return "reductions";
    case Channel::kSyncs:
      break;
  }
  return "syncs";
}

std::string describe(const StepPlan& plan, const Action& action) {
  std::string text(to_string(action.act));
  if (action.act == Act::kAgree) {
    return text + " on norm and flags, world";
  }
  if (is_collective(action.act)) {
    text += " " + std::string(to_string(action.content)) + " " + letter(action.from) + "->" +
            letter(action.to) + " " + std::string(to_string(action.domain));
  }
  text += ", " + names(plan, action);
  switch (action.phase) {
    case Phase::kForward:
    case Phase::kBackward:
      return text + ", " + std::string(to_string(action.phase)) + " of micro-batch " +
             std::to_string(action.micro_batch);
    case Phase::kSyncG:
    case Phase::kSyncP:
      return text + ", " + std::string(to_string(action.phase));
    case Phase::kUpdate:
      break;
  }
  return text;
}

std::string print(const StepPlan& plan) {
  std::string text =
      letters(plan.shape.strategy) + ": " + std::to_string(plan.shape.units.size()) + " units, " +
      std::to_string(plan.shape.micro_batches) + " micro-batches, prefetch " +
      std::to_string(plan.shape.prefetch) + ", " +
      (plan.shape.bucket_elements > 0
           ? "buckets of " + std::to_string(plan.shape.bucket_elements) + " elements, "
           : "") +
      std::to_string(plan.actions.size()) + " actions\n";
  for (size_t id = 0; id < plan.actions.size(); ++id) {
    const Action& action = plan.actions[id];
    text += std::to_string(id) + " [" + std::string(to_string(action.channel)) + "] " +
            describe(plan, action) + list("after", action.after) +
            list("after the previous step's", action.after_previous) + "\n";
  }
  return text;
}

}  // namespace paro
