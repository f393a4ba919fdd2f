#include "step/critical_path.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace paro {
namespace {

using Link = ActionCost::Link;

constexpr size_t kSteps = 4;

// Steps of one plan in virtual time. A step action is an action of one of the steps.
class Timeline {
 public:
  Timeline(const StepPlan& plan, const std::function<ActionCost(const Action&)>& cost_of)
      : plan_(plan), count_(plan.actions.size()) {
    for (const Action& action : plan_.actions) {
      costs_.push_back(cost_of(action));
      queues_[static_cast<size_t>(action.track)].push_back(costs_.size() - 1);
    }
    ended_.assign(kSteps * count_, false);
  }

  // Seconds at which the last computation of each step ended.
  [[nodiscard]] std::array<double, kSteps> run() {
    start_what_can();
    while (advance()) {
      start_what_can();
    }
    return compute_ended_;
  }

  [[nodiscard]] double compute_s() const {
    double sum = 0;
    for (const size_t id : queues_[static_cast<size_t>(Track::kCompute)]) {
      sum += costs_[id].seconds;
    }
    return sum;
  }

 private:
  struct Progress {
    size_t next = 0;                // place on the track, over all steps
    std::optional<size_t> running;  // step action
    double left_s = 0;
  };

  [[nodiscard]] bool ready(size_t step_action) const {
    const Action& action = plan_.actions[step_action % count_];
    const size_t step = step_action / count_;
    const auto over = [&](size_t at, const std::vector<ActionId>& ids) {
      return std::all_of(
          ids.begin(), ids.end(), [&](ActionId id) { return ended_[at * count_ + id.at()]; });
    };
    return over(step, action.after) && (step == 0 || over(step - 1, action.after_previous));
  }

  void start_what_can() {
    for (size_t c = 0; c < kTrackCount; ++c) {
      Progress& track = tracks_[c];
      const auto& queue = queues_[c];
      if (track.running || track.next == queue.size() * kSteps) {
        continue;
      }
      const size_t step_action =
          track.next / queue.size() * count_ + queue[track.next % queue.size()];
      if (ready(step_action)) {
        ++track.next;
        track.running = step_action;
        track.left_s = costs_[step_action % count_].seconds;
      }
    }
  }

  [[nodiscard]] double rate(const Progress& track) const {
    const Link link = costs_[*track.running % count_].link;
    if (link == Link::kNone) {
      return 1;
    }
    const auto sharers = std::count_if(tracks_.begin(), tracks_.end(), [&](const auto& other) {
      return other.running && costs_[*other.running % count_].link == link;
    });
    return 1.0 / static_cast<double>(sharers);
  }

  // To the next end of an action; false when nothing runs.
  bool advance() {
    double shortest = std::numeric_limits<double>::infinity();
    std::array<double, kTrackCount> rates{};
    for (size_t c = 0; c < kTrackCount; ++c) {
      if (tracks_[c].running) {
        rates[c] = rate(tracks_[c]);
        shortest = std::min(shortest, tracks_[c].left_s / rates[c]);
      }
    }
    if (shortest == std::numeric_limits<double>::infinity()) {
      return false;
    }
    now_s_ += shortest;
    for (size_t c = 0; c < kTrackCount; ++c) {
      Progress& track = tracks_[c];
      if (!track.running) {
        continue;
      }
      const bool over = track.left_s / rates[c] <= shortest;
      track.left_s -= shortest * rates[c];
      if (over) {
        end(*track.running);
        track.running.reset();
      }
    }
    return true;
  }

  void end(size_t step_action) {
    ended_[step_action] = true;
    if (plan_.actions[step_action % count_].track == Track::kCompute) {
      compute_ended_[step_action / count_] = now_s_;
    }
  }

  const StepPlan& plan_;
  size_t count_;
  std::vector<ActionCost> costs_;
  std::array<std::vector<size_t>, kTrackCount> queues_;
  std::array<Progress, kTrackCount> tracks_;
  std::vector<bool> ended_;
  std::array<double, kSteps> compute_ended_{};
  double now_s_ = 0;
};

}  // namespace

CriticalPath critical_path(const StepPlan& plan,
                           const std::function<ActionCost(const Action&)>& cost_of) {
  Timeline timeline(plan, cost_of);
  const auto ends = timeline.run();
  return {ends[kSteps - 1] - ends[kSteps - 2], timeline.compute_s()};
}

}  // namespace paro
