#include "step/critical_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace paro {
namespace {

using Link = ActionCost::Link;

constexpr size_t kSteps = 4;

// Steps of one plan in virtual time. A step action is an action of one of the steps.
class Timeline {
 public:
  Timeline(const StepPlan& plan, const std::vector<ActionCost>& costs, uint32_t further)
      : plan_(plan), costs_(costs), count_(plan.actions.size()), further_(further) {
    for (size_t id = 0; id < count_; ++id) {
      const Action& action = plan_.actions[id];
      const auto track = static_cast<size_t>(action.track);
      queues_[track].push_back(id);
      middle_[track] += action.micro_batch == kMiddle ? 1 : 0;
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
      const bool repeats = plan_.actions[id].micro_batch == kMiddle;
      sum += costs_[id].seconds * (repeats ? 1 + double{1} * further_ : 1);
    }
    return sum;
  }

  [[nodiscard]] bool steady() const { return steady_; }

 private:
  struct Progress {
    size_t next = 0;                // place on the track, over all steps
    std::optional<size_t> running;  // step action
    double left_s = 0;
  };

  // Of every track, as seen from the end of a micro-batch.
  struct Position {
    std::array<int64_t, kTrackCount> next{};
    std::array<double, kTrackCount> left_s{};
    double now_s = 0;
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
    if (passed_) {
      pass(*passed_ / count_, plan_.actions[*passed_ % count_].micro_batch);
      passed_.reset();
    }
    return true;
  }

  void end(size_t step_action) {
    ended_[step_action] = true;
    const Action& action = plan_.actions[step_action % count_];
    if (action.track != Track::kCompute) {
      return;
    }
    compute_ended_[step_action / count_] = now_s_;
    const bool last_of_micro_batch = action.act == Act::kBackward && action.unit == 0;
    if (last_of_micro_batch && further_ > 0 && action.micro_batch + 1 < plan_.shape.micro_batches) {
      passed_ = step_action;
    }
  }

  [[nodiscard]] Position position_after(size_t step, uint32_t micro_batch) const {
    Position position;
    for (size_t c = 0; c < kTrackCount; ++c) {
      const size_t origin = step * queues_[c].size() + (micro_batch + size_t{1}) * middle_[c];
      position.next[c] = static_cast<int64_t>(tracks_[c].next) - static_cast<int64_t>(origin);
      position.left_s[c] = tracks_[c].running ? tracks_[c].left_s : 0;
    }
    position.now_s = now_s_;
    return position;
  }

  // But for rounding.
  static bool is_same(const Position& a, const Position& b, double took_s) {
    constexpr double kRounding = 1e-9;
    bool same = a.next == b.next;
    for (size_t c = 0; c < kTrackCount; ++c) {
      same = same && std::abs(a.left_s[c] - b.left_s[c]) <= kRounding * took_s;
    }
    return same;
  }

  // A micro-batch has been computed, and not the last one.
  void pass(size_t step, uint32_t micro_batch) {
    const Position position = position_after(step, micro_batch);
    if (micro_batch == 0) {
      repeated_ = false;
    } else if (!repeated_) {
      const double took_s = position.now_s - before_.now_s;
      const bool same = is_same(position, before_, took_s);
      const bool last_to_repeat = micro_batch + 2 == plan_.shape.micro_batches;
      if (same || last_to_repeat) {
        now_s_ += took_s * further_;
        repeated_ = true;
        steady_ = steady_ && same;
      }
    }
    before_ = position;
  }

  static constexpr uint32_t kMiddle = 1;  // a micro-batch as all others but the first and the last

  const StepPlan& plan_;
  const std::vector<ActionCost>& costs_;
  size_t count_;
  uint32_t further_;
  std::array<size_t, kTrackCount> middle_{};  // actions of that micro-batch
  std::optional<size_t> passed_;              // that ended a micro-batch
  Position before_;                           // after the micro-batch before
  bool repeated_ = false;                     // in this step
  bool steady_ = true;
  std::array<std::vector<size_t>, kTrackCount> queues_;
  std::array<Progress, kTrackCount> tracks_;
  std::vector<bool> ended_;
  std::array<double, kSteps> compute_ended_{};
  double now_s_ = 0;
};

}  // namespace

CriticalPath critical_path(const StepPlan& plan,
                           const std::vector<ActionCost>& costs,
                           uint32_t further) {
  Timeline timeline(plan, costs, further);
  const auto ends = timeline.run();
  return {ends[kSteps - 1] - ends[kSteps - 2], timeline.compute_s(), timeline.steady()};
}

}  // namespace paro
