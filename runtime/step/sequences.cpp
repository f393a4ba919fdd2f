#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "step/verify.hpp"

namespace paro {
namespace {

// What the library carries out in the order of the calls: of one communicator all-gathers,
// reduce-scatters and the rest each.
using Sequence = std::pair<Domain, Act>;

Sequence sequence_of(const Action& action) {
  return {action.domain, action.act == Act::kAgree ? Act::kAllReduce : action.act};
}

// Which action starts before which on every rank, however fast each of them is, in two steps.
class Starts {
 public:
  explicit Starts(const StepPlan& plan) : plan_(plan), count_(plan.actions.size()) {
    for (size_t step = 0; step < 2; ++step) {
      for (size_t id = 0; id < count_; ++id) {
        relate(step, id);
      }
    }
  }

  [[nodiscard]] ho::Status check() const {
    for (const auto& [sequence, by_track] : sequences_) {
      HORING_TRY(check(by_track));
    }
    return {};
  }

 private:
  using ByTrack = std::array<std::vector<size_t>, kTrackCount>;
  struct StepAction {
    size_t track = 0;
    size_t index = 0;  // on its track
    // By track: as many have started before. A track starts in order, so they are its first.
    std::array<size_t, kTrackCount> before{};
  };

  void relate(size_t step, size_t id) {
    const Action& action = plan_.actions[id];
    StepAction step_action{static_cast<size_t>(action.track), 0, {}};
    step_action.index = started_[step_action.track].size();
    const auto follows = [&](size_t earlier) {
      const StepAction& start = step_actions_[earlier];
      for (size_t c = 0; c < kTrackCount; ++c) {
        step_action.before[c] = std::max(step_action.before[c], start.before[c]);
      }
      step_action.before[start.track] = std::max(step_action.before[start.track], start.index + 1);
    };
    for (const ActionId earlier : action.after) {
      follows(step * count_ + earlier.at());
    }
    if (step > 0) {
      for (const ActionId earlier : action.after_previous) {
        follows((step - 1) * count_ + earlier.at());
      }
    }
    if (step_action.index > 0) {
      follows(started_[step_action.track].back());
    }
    const size_t number = step_actions_.size();
    if (is_collective(action.act)) {
      sequences_[sequence_of(action)][step_action.track].push_back(number);
    }
    started_[step_action.track].push_back(number);
    step_actions_.push_back(step_action);
  }

  [[nodiscard]] ho::Status check(const ByTrack& by_track) const {
    for (const std::vector<size_t>& ones : by_track) {
      for (const std::vector<size_t>& others : by_track) {
        if (&others != &ones) {
          HORING_TRY(check(ones, others));
        }
      }
    }
    return {};
  }

  // Two tracks' actions of one sequence, each in its order.
  [[nodiscard]] ho::Status check(const std::vector<size_t>& ones,
                                 const std::vector<size_t>& others) const {
    for (const size_t one : ones) {
      // The first of the others that need not start before it has to start after it.
      const auto later = std::partition_point(others.begin(), others.end(), [&](size_t other) {
        return step_actions_[other].index < step_actions_[one].before[step_actions_[other].track];
      });
      if (later != others.end() &&
          step_actions_[*later].before[step_actions_[one].track] <= step_actions_[one].index) {
        return {ho::StatusCode::kInternal,
                "step plan " + letters(plan_.shape.strategy) + ": ranks could start " + name(one) +
                    " and " + name(*later) +
                    " in different orders, which one communicator takes in one order only"};
      }
    }
    return {};
  }

  [[nodiscard]] std::string name(size_t step_action) const {
    return "action " + std::to_string(step_action % count_) + " of step " +
           std::to_string(step_action / count_ + 1) + " (" +
           to_string(plan_, plan_.actions[step_action % count_]) + ")";
  }

  const StepPlan& plan_;
  size_t count_;
  std::vector<StepAction> step_actions_;
  ByTrack started_;
  std::map<Sequence, ByTrack> sequences_;
};

}  // namespace

ho::Status verify_sequences(const StepPlan& plan) {
  return Starts(plan).check();
}

}  // namespace paro
