#include "step/critical_path.hpp"

#include "step/stream_trace.hpp"

namespace paro {
namespace {

CriticalPath path_of(Timeline& timeline) {
  const auto ends = timeline.run();
  return {ends[Timeline::kSteps - 1] - ends[Timeline::kSteps - 2],
          timeline.compute_s(),
          timeline.steady()};
}

}  // namespace

CriticalPath critical_path(const StepPlan& plan,
                           const std::vector<ActionCost>& costs,
                           uint32_t further) {
  Timeline timeline(plan, costs, further);
  return path_of(timeline);
}

CriticalPath critical_path(const StepPlan& plan,
                           const StepStreams& streams,
                           const std::vector<ActionCost>& costs,
                           Begins begins) {
  const size_t count = plan.actions.size();
  StreamTrace trace(plan, streams);
  for (size_t step = 0; step < Timeline::kSteps; ++step) {
    trace.add_step();
  }
  const auto number = [&](const Launched& launched) {
    return launched.step * count + launched.action.at();
  };
  std::vector<std::vector<size_t>> waits(Timeline::kSteps * count);
  std::vector<size_t> order;
  for (const Launched& launched : trace.launched()) {
    order.push_back(number(launched));
    for (const size_t earlier : launched.waits) {
      waits[order.back()].push_back(order[earlier]);
    }
  }
  Timeline timeline(plan, costs);
  timeline.wait_for(std::move(waits));
  timeline.launch_in(order, begins);
  return path_of(timeline);
}

}  // namespace paro
