#include "run/step_runner.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time that it lives, without what was spent waiting meanwhile, to a hook's account.
class HookClock {
 public:
  explicit HookClock(StepReport& counted)
      : counted_(counted), start_(Clock::now()), waited_(counted.wait_ns) {
    ++counted_.hooks;
  }
  HookClock(const HookClock&) = delete;
  HookClock& operator=(const HookClock&) = delete;
  ~HookClock() {
    const auto all = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count());
    counted_.hook_ns += all - (counted_.wait_ns - waited_);
  }

 private:
  StepReport& counted_;
  Clock::time_point start_;
  uint64_t waited_;
};

}  // namespace

ho::Result<UnitView> StepRunner::before_forward(uint32_t unit) {
  return begin(Act::kForward, unit);
}

ho::Status StepRunner::after_forward(uint32_t unit) {
  return end(Act::kForward, unit);
}

ho::Result<UnitView> StepRunner::before_backward(uint32_t unit) {
  return begin(Act::kBackward, unit);
}

ho::Status StepRunner::after_backward(uint32_t unit) {
  return end(Act::kBackward, unit);
}

ho::Status StepRunner::expect(Act act, uint32_t unit, bool begins) const {
  const auto& queue = queues_[static_cast<size_t>(Channel::kCompute)];
  const Action& next =
      plan_.actions[queue[next_[static_cast<size_t>(Channel::kCompute)] % queue.size()]];
  if (next.act == act && next.unit == unit && computing_ != begins) {
    return {};
  }
  const auto name = [](Act of, uint32_t which, bool before) {
    if (of == Act::kUpdate) {
      return std::string("step()");
    }
    return std::string(before ? "before_" : "after_") + std::string(to_string(of)) + "(" +
           std::to_string(which) + ")";
  };
  const std::string wanted = name(next.act, next.unit, !computing_);
  return {ho::StatusCode::kInvalidArgument,
          name(act, unit, begins) + " of " + std::to_string(config_.units.size()) + " units and " +
              std::to_string(plan_.shape.micro_batches) + " micro-batches: the next call is " +
              wanted + " (micro-batch " + std::to_string(next.micro_batch) + ")"};
}

UnitView StepRunner::view_of(const Action& action, uint64_t node) const {
  const uint32_t home = home_of(config_.units, action.unit);
  const UnitShape& shape = config_.units[home];
  const UnitState& unit = units_[home];
  UnitView view;
  if (shape.trained > 0) {
    Action trained = action;
    trained.content = Content::kParameters;
    view.trained = config_.strategy.parameters == Scope::kReplicated
                       ? unit.parameters.at(0)
                       : gathered_place(trained, node).at(0);
  }
  if (shape.frozen > 0) {
    Action frozen = action;
    frozen.content = Content::kFrozen;
    view.frozen = config_.frozen == Scope::kReplicated ? unit.frozen.at(0)
                                                       : gathered_place(frozen, node).at(0);
  }
  if (action.act == Act::kBackward && shape.trained > 0) {
    view.gradients = adds_to_sums() ? unit.sums.at(0) : output_place(node, action.unit).at(0);
  }
  return view;
}

ho::Result<UnitView> StepRunner::begin(Act act, uint32_t unit) {
  const HookClock clock(counted_);
  HORING_TRY(broken_);
  HORING_TRY(expect(act, unit, true));
  const auto c = static_cast<size_t>(Channel::kCompute);
  const uint64_t count = plan_.actions.size();
  const uint64_t step = next_[c] / queues_[c].size();
  const uint64_t node = step * count + queues_[c][next_[c] % queues_[c].size()];
  const Action& action = action_of(node);
  in_step_ = true;
  if (action.act == Act::kForward && unit == 0 && action.micro_batch > 0) {
    HORING_TRY(break_unless_ok(ends_->tell(action.micro_batch, StepEnds::Next::kMicroBatch),
                               "step " + std::to_string(step + 1)));
  }
  HORING_TRY(pump());
  for (const ActionId id : action.after) {
    HORING_TRY(finish(step * count + id));
  }
  for (const ActionId id : action.after_previous) {
    if (step > 0) {
      HORING_TRY(finish((step - 1) * count + id));
    }
  }
  computing_ = true;
  const UnitView view = view_of(action, node);
  if (view.gradients != nullptr) {
    const uint64_t bytes = layouts_[home_of(config_.units, unit)].trained.padded_count() *
                           ho::size_bytes(config_.gradient_dtype);
    if (!adds_to_sums() || config_.mistake == Mistake::kOverwriteAccumulation) {
      ledger_.memory().zero(view.gradients, bytes);
    }
  }
  computing_since_ = Clock::now();
  return view;
}

ho::Status StepRunner::end(Act act, uint32_t unit) {
  const HookClock clock(counted_);
  HORING_TRY(broken_);
  HORING_TRY(expect(act, unit, false));
  const auto c = static_cast<size_t>(Channel::kCompute);
  const uint64_t step = next_[c] / queues_[c].size();
  const uint64_t node = step * plan_.actions.size() + queues_[c][next_[c] % queues_[c].size()];
  computing_ = false;
  counted_.compute_ns += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - computing_since_)
          .count());
  const Action& action = action_of(node);
  const bool own_gradients = config_.strategy.gradients == Scope::kReplicated;
  if (act == Act::kBackward && own_gradients && !adds_to_sums() &&
      config_.units[home_of(config_.units, unit)].trained > 0) {
    add_gradients(action, home_of(config_.units, unit), output_place(node, unit));
  }
  mark_ended(node, computing_since_);
  ++next_[c];
  return pump();
}

}  // namespace paro
