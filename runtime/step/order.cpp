#include <array>
#include <map>
#include <utility>

#include "step/verify.hpp"

namespace paro {
namespace {

// Buffers of a rank: kind, then a unit or a slot.
enum class Store : uint8_t {
  kParameters,
  kGathered,
  kGatheredFrozen,
  kSum,
  kBackwardOutput,
  kPack,
  kMaster,
};
using Buffer = std::pair<Store, uint32_t>;

struct Access {
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
    for (size_t step = 0; step < 2; ++step) {
      Over over;
      for (size_t id = 0; id < count_; ++id) {
        HORING_TRY(access(step * count_ + id, over));
        const Action& action = plan_.actions[id];
        over.slots += action.act == Act::kForward || action.act == Act::kBackward ? 1U : 0U;
        over.reductions += is_reduction(action) ? 1U : 0U;
        over.merged += is_merged(action) ? 1U : 0U;
      }
    }
    return {};
  }

 private:
  // How much of a step is over in list order: what numbers its buffers.
  struct Over {
    uint32_t slots = 0;       // of computation
    uint32_t reductions = 0;  // of micro-batches
    uint32_t merged = 0;      // reductions
  };

  [[nodiscard]] bool is_reduction(const Action& action) const {
    return action.content == Content::kGradients && action.phase == Phase::kBackward &&
           action.act == Act::kReduceScatter;
  }

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

  [[nodiscard]] ho::Status touch(size_t step_action, Buffer buffer, bool writes) {
    for (const Access& other : accesses_[buffer]) {
      if ((writes || other.writes) && other.step_action != step_action &&
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
    accesses_[buffer].push_back({step_action, writes});
    return {};
  }

  [[nodiscard]] ho::Status reduce(size_t step_action, const Buffer& output, const Over& over) {
    const Action& action = plan_.actions[step_action % count_];
    if (is_reduction(action)) {
      HORING_TRY(touch(step_action, output, false));
    }
    if (is_merged(action)) {
      HORING_TRY(touch(step_action, {Store::kPack, over.merged % kPackBuffers}, true));
    }
    for (const uint32_t unit : units_of(action)) {
      HORING_TRY(touch(step_action, {Store::kSum, unit}, true));
    }
    return {};
  }

  [[nodiscard]] ho::Status access(size_t step_action, const Over& over) {
    const StepShape& shape = plan_.shape;
    const Action& action = plan_.actions[step_action % count_];
    const uint32_t gather_buffer = over.slots % (shape.prefetch + 1);
    const Buffer gathered{Store::kGathered, gather_buffer};
    const Buffer gathered_frozen{Store::kGatheredFrozen, gather_buffer};
    const Buffer output{Store::kBackwardOutput, over.reductions % kGradientBuffers};
    const uint32_t home = home_of(shape.units, action.unit);
    const Buffer parameters{Store::kParameters, home};
    const Buffer sum{Store::kSum, home};
    switch (action.act) {
      case Act::kForward:
      case Act::kBackward:
        HORING_TRY(touch(step_action, gathered, false));
        HORING_TRY(touch(step_action, gathered_frozen, false));
        if (shape.strategy.parameters == Scope::kReplicated) {
          HORING_TRY(touch(step_action, parameters, false));
        }
        if (action.act == Act::kBackward && shape.units[home].trained > 0) {
          const bool own = shape.strategy.gradients == Scope::kReplicated;
          HORING_TRY(touch(step_action, own ? sum : output, true));
        }
        return {};
      case Act::kGather:
        if (action.phase == Phase::kSyncP) {
          return touch(step_action, parameters, true);
        }
        if (action.content == Content::kFrozen) {
          return touch(step_action, gathered_frozen, true);
        }
        HORING_TRY(touch(step_action, parameters, false));
        return touch(step_action, gathered, true);
      case Act::kReduceScatter:
      case Act::kAllReduce:
        return reduce(step_action, output, over);
      case Act::kAgree:
        for (uint32_t u = 0; u < shape.units.size(); ++u) {
          HORING_TRY(touch(step_action, {Store::kSum, u}, false));
        }
        return {};
      case Act::kUpdate:
        break;
    }
    HORING_TRY(touch(step_action, sum, true));
    HORING_TRY(touch(step_action, {Store::kMaster, action.unit}, true));
    return touch(step_action, parameters, true);
  }

  static constexpr size_t kNone = SIZE_MAX;
  const StepPlan& plan_;
  size_t count_;
  size_t words_;
  std::vector<std::vector<uint64_t>> before_;  // by action: those that end before it starts
  std::array<size_t, kTrackCount> last_{};     // by track: its last action, or kNone
  std::map<Buffer, std::vector<Access>> accesses_;
};

}  // namespace

ho::Status verify_order(const StepPlan& plan) {
  return Orders(plan).check();
}

}  // namespace paro
