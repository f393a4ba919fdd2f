#include "step/launches.hpp"

#include <algorithm>
#include <utility>

#include "step/timeline.hpp"

namespace paro {
namespace {

// Collectives begin on a device in the order in which they are launched. So they are launched in
// the order in which they would begin if nothing but their waits held them, by what they are
// assumed to take: then that order holds none of them. Steps are run in virtual time to find it.
class Launches {
 public:
  Launches(const StepPlan& plan,
           const DataOrder& order,
           const std::vector<std::vector<StepActionNumber>>& waits)
      : plan_(plan), order_(order), waits_(waits), count_(plan.actions.size()) {}

  [[nodiscard]] std::vector<Launch> all(const std::vector<ActionCost>& costs) const {
    Timeline timeline(plan_, costs);
    timeline.wait_for(waits_of_steps());
    static_cast<void>(timeline.run());
    return among_computations(collectives(timeline.begun()));
  }

 private:
  // In which collectives begin is looked at, and the steps before and after it are like it.
  static constexpr size_t kStep = 2;

  [[nodiscard]] Track track_of(size_t step_action) const {
    return plan_.actions[step_action % count_].track;
  }

  [[nodiscard]] size_t agreement() const {
    const auto found = std::find_if(plan_.actions.begin(), plan_.actions.end(), [](const auto& a) {
      return a.act == Act::kAgree;
    });
    return static_cast<size_t>(found - plan_.actions.begin());
  }

  // Hooks come before step(), though nothing that it takes may come from the last of them.
  [[nodiscard]] size_t last_of_hooks() const {
    size_t last = 0;
    for (size_t id = 0; id < count_; ++id) {
      const Act act = plan_.actions[id].act;
      last = act == Act::kForward || act == Act::kBackward ? id : last;
    }
    return last;
  }

  // A step's first gather is launched by the step's first hook, so after the agreement of the step
  // before.
  [[nodiscard]] std::vector<std::vector<size_t>> waits_of_steps() const {
    std::vector<std::vector<size_t>> waits(Timeline::kSteps * count_);
    for (size_t at = 0; at < waits.size(); ++at) {
      for (const StepActionNumber earlier : waits_[count_ + at % count_]) {
        if (at / count_ * count_ + earlier >= count_) {  // there is a step before
          waits[at].push_back(at / count_ * count_ + earlier - count_);
        }
      }
    }
    for (size_t step = 0; step < Timeline::kSteps; ++step) {
      waits[step * count_ + agreement()].push_back(step * count_ + last_of_hooks());
    }
    const auto gather = std::find_if(plan_.actions.begin(), plan_.actions.end(), [](const auto& a) {
      return a.track == Track::kGathers;
    });
    if (gather == plan_.actions.end()) {
      return waits;
    }
    const auto first = static_cast<size_t>(gather - plan_.actions.begin());
    for (size_t step = 1; step < Timeline::kSteps; ++step) {
      const size_t previous = (step - 1) * count_;
      for (const StepActionNumber before : order_.before(count_ + agreement())) {
        if (before != kNoAction && before >= count_) {
          waits[step * count_ + first].push_back(previous + before - count_);
        }
      }
    }
    return waits;
  }

  // Of a step, with what the step before leaves it of its sync-p.
  [[nodiscard]] std::vector<Launch> collectives(const std::vector<size_t>& begun) const {
    std::vector<Launch> launches;
    std::vector<Launch> syncs;
    bool in_step = false;
    for (const size_t step_action : begun) {
      const Track track = track_of(step_action);
      const size_t step = step_action / count_;
      in_step = in_step || (step == kStep && track == Track::kGathers);
      if (track == Track::kSyncs && step + 1 == kStep) {
        (in_step ? launches : syncs).push_back({ActionId(step_action % count_), in_step});
      } else if (step == kStep && track != Track::kCompute && track != Track::kSyncs) {
        launches.push_back({ActionId(step_action % count_)});
      }
    }
    launches.insert(launches.end(), syncs.begin(), syncs.end());
    return launches;
  }

  // By action: how many computations of its step are before it at least.
  [[nodiscard]] std::vector<size_t> computations_before() const {
    std::vector<size_t> before(2 * count_, 0);
    std::vector<size_t> in_step(count_, 0);
    size_t computations = 0;
    for (size_t at = count_; at < 2 * count_; ++at) {
      for (const StepActionNumber earlier : order_.before(at)) {
        if (earlier != kNoAction && earlier >= count_) {
          before[at] = std::max(before[at], before[earlier]);
        }
      }
      if (at == count_ + agreement()) {
        before[at] = computations;
      }
      in_step[at - count_] = before[at];
      if (track_of(at) == Track::kCompute) {
        before[at] = ++computations;
      }
    }
    return in_step;
  }

  // Each as early as its place among the others allows.
  [[nodiscard]] std::vector<Launch> among_computations(const std::vector<Launch>& others) const {
    const std::vector<size_t> before = computations_before();
    std::vector<Launch> launches;
    size_t next = 0;
    for (size_t id = 0; id <= count_; ++id) {
      if (id < count_ && track_of(id) != Track::kCompute) {
        continue;
      }
      const size_t over = id < count_ ? before[id] : SIZE_MAX;
      while (next < others.size() &&
             (others[next].previous || before[others[next].action.at()] <= over)) {
        launches.push_back(others[next++]);
      }
      if (id < count_) {
        launches.push_back({ActionId(id)});
      }
    }
    return launches;
  }

  const StepPlan& plan_;
  const DataOrder& order_;
  const std::vector<std::vector<StepActionNumber>>& waits_;
  size_t count_;
};

}  // namespace

std::vector<Launch> launches_of(const StepPlan& plan,
                                const DataOrder& order,
                                const std::vector<std::vector<StepActionNumber>>& waits,
                                const std::vector<ActionCost>& costs) {
  return Launches(plan, order, waits).all(costs);
}

}  // namespace paro
