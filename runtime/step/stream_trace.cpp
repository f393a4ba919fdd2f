#include "step/stream_trace.hpp"

#include <algorithm>
#include <utility>

namespace paro {

size_t StreamTrace::launches_of(uint32_t micro_batches) const {
  const auto& launches = streams_.launches;
  const auto next = std::find_if(launches.begin(), launches.end(), [&](const Launch& launch) {
    const Action& action = plan_.actions[launch.action.at()];
    return action.act == Act::kAgree ||
           (action.track == Track::kCompute && action.micro_batch >= micro_batches);
  });
  return static_cast<size_t>(next - launches.begin());
}

void StreamTrace::launch(const Launch& launch) {
  const size_t action = launch.action.at();
  if (launch.previous && !left_[action]) {
    return;  // there is no step before, or what was between the steps needed it
  }
  Launched launched{step_, launch.action, {}, std::exchange(joined_, false)};
  if (launch.previous) {
    launched.step = *std::exchange(left_[action], std::nullopt);
  }
  for (const ActionId earlier : streams_.actions[action].waits) {
    if (recorded_[earlier.at()]) {
      launched.waits.push_back(*recorded_[earlier.at()]);
    }
  }
  recorded_[action] = launched_.size();
  launched_.push_back(std::move(launched));
}

void StreamTrace::end_step() {
  for (const Launch& one : streams_.launches) {
    if (one.previous) {
      left_[one.action.at()] = step_;
    }
  }
  ++step_;
}

void StreamTrace::add_step_of(uint32_t micro_batches) {
  const bool early = micro_batches < plan_.shape.micro_batches;
  const size_t before_end = early ? launches_of(micro_batches) : 0;
  for (size_t i = 0; i < streams_.launches.size(); ++i) {
    const Action& action = plan_.actions[streams_.launches[i].action.at()];
    joined_ = joined_ || (early && i == before_end);
    const bool in_micro_batch = action.phase == Phase::kForward || action.phase == Phase::kBackward;
    const bool left_out =
        early && i >= before_end && in_micro_batch && action.micro_batch >= micro_batches;
    if (!left_out) {
      launch(streams_.launches[i]);
    }
  }
  end_step();
}

void StreamTrace::add_dropped(uint32_t micro_batches) {
  const size_t end = launches_of(micro_batches);
  for (size_t i = 0; i < end; ++i) {
    launch(streams_.launches[i]);
  }
  joined_ = true;
  ++step_;
}

void StreamTrace::add_rest() {
  for (const Launch& one : streams_.launches) {
    if (one.previous) {
      launch(one);
    }
  }
  joined_ = true;
}

}  // namespace paro
