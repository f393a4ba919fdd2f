#include <array>
#include <map>

#include "step/accesses.hpp"
#include "step/verify.hpp"

namespace paro {
namespace {

struct Use {
  size_t step_action;
  bool writes;
};

class Orders {
 public:
  explicit Orders(const StepPlan& plan)
      : plan_(plan), count_(plan.actions.size()), words_((2 * count_ + 63) / 64) {
    last_.fill(kNone);
    before_.assign(2 * count_, std::vector<uint64_t>(words_, 0));
    for (size_t step = 0; step < 2; ++step) {
      for (size_t id = 0; id < count_; ++id) {
        relate(step, id);
      }
    }
  }

  [[nodiscard]] ho::Status check() {
    const auto accesses = accesses_of(plan_);
    for (size_t step = 0; step < 2; ++step) {
      for (size_t id = 0; id < count_; ++id) {
        for (const Access& access : accesses[id]) {
          HORING_TRY(touch(step * count_ + id, access));
        }
      }
    }
    return {};
  }

 private:
  void inherit(size_t step_action, size_t earlier) {
    for (size_t w = 0; w < words_; ++w) {
      before_[step_action][w] |= before_[earlier][w];
    }
  }

  void relate(size_t step, size_t id) {
    const size_t step_action = step * count_ + id;
    const Action& action = plan_.actions[id];
    const auto follows = [&](size_t earlier) {
      inherit(step_action, earlier);
      before_[step_action][earlier / 64] |= uint64_t{1} << (earlier % 64);
    };
    for (const ActionId earlier : action.after) {
      follows(step * count_ + earlier.at());
    }
    if (step > 0) {
      for (const ActionId earlier : action.after_previous) {
        follows((step - 1) * count_ + earlier.at());
      }
    }
    // A track starts in order: what its last start waited for has ended. Computations also end
    // before the next one starts.
    size_t& last = last_[static_cast<size_t>(action.track)];
    if (last != kNone) {
      inherit(step_action, last);
      if (action.track == Track::kCompute) {
        follows(last);
      }
    }
    last = step_action;
  }

  [[nodiscard]] bool ordered(size_t earlier, size_t later) const {
    return (before_[later][earlier / 64] >> (earlier % 64) & 1U) != 0;
  }

  [[nodiscard]] ho::Status touch(size_t step_action, const Access& access) {
    for (const Use& other : uses_[access.buffer]) {
      if ((access.writes || other.writes) && other.step_action != step_action &&
          !ordered(other.step_action, step_action)) {
        return {ho::StatusCode::kInternal,
                "step plan " + letters(plan_.shape.strategy) + ": nothing orders action " +
                    std::to_string(other.step_action % count_) + " (" +
                    to_string(plan_, plan_.actions[other.step_action % count_]) + ") and action " +
                    std::to_string(step_action % count_) + " (" +
                    to_string(plan_, plan_.actions[step_action % count_]) +
                    "), which use one buffer"};
      }
    }
    uses_[access.buffer].push_back({step_action, access.writes});
    return {};
  }

  static constexpr size_t kNone = SIZE_MAX;
  const StepPlan& plan_;
  size_t count_;
  size_t words_;
  std::vector<std::vector<uint64_t>> before_;  // by action: those that end before it starts
  std::array<size_t, kTrackCount> last_{};     // by track: its last action, or kNone
  std::map<Buffer, std::vector<Use>> uses_;
};

}  // namespace

ho::Status verify_order(const StepPlan& plan) {
  return Orders(plan).check();
}

}  // namespace paro
