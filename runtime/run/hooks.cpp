// What a framework calls around each computation.
#include "run/collectives.hpp"
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
    counted_.hook_ns += ns_between(start_, Clock::now()) - (counted_.wait_ns - waited_);
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
  const Action& next = scheduler_.action(scheduler_.computation());
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
          name(act, unit, begins) + " of " + std::to_string(config().units.size()) + " units and " +
              std::to_string(plan().shape.micro_batches) + " micro-batches: the next call is " +
              wanted + " (micro-batch " + std::to_string(next.micro_batch) + ")"};
}

UnitView StepRunner::view_of(const StepAction& step_action) const {
  const Action& action = scheduler_.action(step_action);
  const uint32_t home = home_of(config().units, action.unit);
  const UnitShape& shape = config().units[home];
  const UnitState& unit = shards_.units[home];
  const auto whole = [&](const Storage& held, Scope scope, Content content) {
    return scope == Scope::kReplicated
               ? held.at(0)
               : buffers_.gathered(config(), step_action.action, content).at(0);
  };
  UnitView view;
  if (shape.trained > 0) {
    view.trained = whole(unit.parameters, config().strategy.parameters, Content::kParameters);
  }
  if (shape.frozen > 0) {
    view.frozen = whole(unit.frozen, config().frozen, Content::kFrozen);
  }
  if (action.act == Act::kBackward && shape.trained > 0) {
    view.gradients = buffers_.has_outputs()
                         ? buffers_.output(shards_, action, step_action.action, action.unit).at(0)
                         : unit.sums.at(0);
  }
  return view;
}

ho::Result<UnitView> StepRunner::begin(Act act, uint32_t unit) {
  const HookClock clock(counted_);
  HORING_TRY(broken());
  HORING_TRY(expect(act, unit, true));
  const StepAction step_action = scheduler_.computation();
  const Action& action = scheduler_.action(step_action);
  scheduler_.begin_step();
  if (action.act == Act::kForward && unit == 0 && action.micro_batch > 0) {
    HORING_TRY(shards_.break_unless_ok(ends_->tell(action.micro_batch, StepEnds::Next::kMicroBatch),
                                       name(step_action.step)));
  }
  HORING_TRY(pump());
  while (const auto before = scheduler_.collective_before(step_action)) {
    HORING_TRY(finish(*before));
  }
  computing_ = true;
  const UnitView view = view_of(step_action);
  if (view.gradients != nullptr && buffers_.has_outputs()) {
    const uint64_t elements = layouts()[home_of(config().units, unit)].trained.padded_count();
    shards_.ledger.operations().zero(view.gradients,
                                     elements * ho::size_bytes(config().gradient_dtype));
  }
  computing_since_ = Clock::now();
  return view;
}

ho::Status StepRunner::end(Act act, uint32_t unit) {
  const HookClock clock(counted_);
  HORING_TRY(broken());
  HORING_TRY(expect(act, unit, false));
  const StepAction step_action = scheduler_.computation();
  computing_ = false;
  counted_.compute_ns += ns_between(computing_since_, Clock::now());
  const Action& action = scheduler_.action(step_action);
  const uint32_t home = home_of(config().units, unit);
  const bool own_gradients = config().strategy.gradients == Scope::kReplicated;
  if (act == Act::kBackward && own_gradients && buffers_.has_outputs() &&
      config().units[home].trained > 0) {
    const ElementView gradients = buffers_.output(shards_, action, step_action.action, unit);
    add_gradients(shards_, action, home, gradients, plan().shape.micro_batches);
  }
  scheduler_.end_computation();
  watch(step_action, computing_since_);
  return pump();
}

}  // namespace paro
