#include "base/names.hpp"
#include "step/step_plan.hpp"
#include "step/streams.hpp"

namespace paro {
namespace {

constexpr ho::Names<7> kActs{
    "forward", "backward", "all_gather", "reduce_scatter", "all_reduce", "agree", "update"};
constexpr ho::Names<3> kDomains{"intra", "inter", "world"};
constexpr ho::Names<4> kContents{"parameters", "frozen parameters", "gradients", "norm and flags"};
constexpr ho::Names<5> kPhases{"forward", "backward", "sync-g", "update", "sync-p"};
constexpr ho::Names<kTrackCount> kTracks{"compute", "gathers", "reductions", "syncs"};

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
  return ho::name_in(kActs, act);
}

std::string_view to_string(Domain domain) {
  return ho::name_in(kDomains, domain);
}

std::string_view to_string(Content content) {
  return ho::name_in(kContents, content);
}

std::string_view to_string(Phase phase) {
  return ho::name_in(kPhases, phase);
}

std::string_view to_string(Track track) {
  return ho::name_in(kTracks, track);
}

std::string to_string(const StepPlan& plan, const Action& action) {
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
    text += std::to_string(id) + " [" + std::string(to_string(action.track)) + "] " +
            to_string(plan, action) + list("after", action.after) +
            list("after the previous step's", action.after_previous) + "\n";
  }
  return text;
}

std::string print(const StepPlan& plan, const StepStreams& streams) {
  std::string text = letters(plan.shape.strategy) +
                     " on streams: " + std::to_string(streams.launches.size()) + " launches, " +
                     std::to_string(streams.event_count) + " events\n";
  for (const Launch& launch : streams.launches) {
    const Action& action = plan.actions[launch.action.at()];
    const StreamAction& on_stream = streams.actions[launch.action.at()];
    text += std::to_string(launch.action.value()) + " [" + std::string(to_string(action.track)) +
            "] " + to_string(plan, action) + (launch.previous ? " of the previous step" : "") +
            list("waits for", on_stream.waits) +
            (on_stream.event ? ", records event " + std::to_string(*on_stream.event) : "") + "\n";
  }
  return text;
}

}  // namespace paro
