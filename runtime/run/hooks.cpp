#include "run/hooks.hpp"

#include "run/collectives.hpp"

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

ho::Status Hooks::expect(Act act, uint32_t unit, bool begins) const {
  const Scheduler& scheduler = progress_.scheduler();
  const Action& next = scheduler.action(scheduler.computation());
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
              std::to_string(scheduler.plan().shape.micro_batches) +
              " micro-batches: the next call is " + wanted + " (micro-batch " +
              std::to_string(next.micro_batch) + ")"};
}

ElementView Hooks::gradients_of(const StepAction& step_action) const {
  const Action& action = progress_.scheduler().action(step_action);
  const StepBuffers& buffers = progress_.buffers();
  return buffers.has_outputs() ? buffers.output(shards_, action, step_action.action, action.unit)
                               : shards_.units[home_of(config_.units, action.unit)].sums;
}

UnitView Hooks::view_of(const StepAction& step_action) const {
  const Action& action = progress_.scheduler().action(step_action);
  const StepBuffers& buffers = progress_.buffers();
  const uint32_t home = home_of(config_.units, action.unit);
  const UnitShape& shape = config_.units[home];
  const UnitState& unit = shards_.units[home];
  const auto whole = [&](const Storage& held, Scope scope, Content content) {
    return scope == Scope::kReplicated
               ? held.at(0)
               : buffers.gathered(config_, step_action.action, content).at(0);
  };
  UnitView view;
  if (shape.trained > 0) {
    view.trained = whole(unit.parameters, config_.strategy.parameters, Content::kParameters);
  }
  if (shape.frozen > 0) {
    view.frozen = whole(unit.frozen, config_.frozen, Content::kFrozen);
  }
  if (action.act == Act::kBackward && shape.trained > 0) {
    view.gradients =
        buffers.written() != nullptr ? buffers.written() : gradients_of(step_action).at(0);
  }
  return view;
}

ho::Result<UnitView> Hooks::begin(Act act, uint32_t unit) {
  const HookClock clock(progress_.counted());
  HORING_TRY(shards_.broken);
  HORING_TRY(expect(act, unit, true));
  Scheduler& scheduler = progress_.scheduler();
  const StepAction step_action = scheduler.computation();
  const Action& action = scheduler.action(step_action);
  scheduler.begin_step();
  if (action.act == Act::kForward && unit == 0 && action.micro_batch > 0) {
    HORING_TRY(shards_.break_unless_ok(
        progress_.ends().tell(action.micro_batch, StepEnds::Next::kMicroBatch),
        name(step_action.step)));
  }
  HORING_TRY(progress_.begin_computation());
  computing_ = true;
  const UnitView view = view_of(step_action);
  if (view.gradients != nullptr) {
    const StepBuffers& buffers = progress_.buffers();
    const Operations& operations = shards_.ledger.operations();
    const uint64_t elements = shards_.layouts[home_of(config_.units, unit)].trained.padded_count();
    if (buffers.has_outputs()) {
      const ElementView outputs = gradients_of(step_action);
      operations.zero(outputs.at(0), elements * ho::size_bytes(outputs.dtype()));
    }
    if (buffers.written() != nullptr) {
      operations.zero(view.gradients, elements * ho::size_bytes(config_.gradient_dtype));
    }
  }
  computing_since_ = Clock::now();
  return view;
}

ho::Status Hooks::end(Act act, uint32_t unit) {
  const HookClock clock(progress_.counted());
  HORING_TRY(shards_.broken);
  HORING_TRY(expect(act, unit, false));
  const Scheduler& scheduler = progress_.scheduler();
  const StepBuffers& buffers = progress_.buffers();
  const StepAction step_action = scheduler.computation();
  computing_ = false;
  progress_.counted().compute_ns += ns_between(computing_since_, Clock::now());
  const Action& action = scheduler.action(step_action);
  const uint32_t home = home_of(config_.units, unit);
  if (act == Act::kBackward && config_.units[home].trained > 0) {
    const ElementView gradients = gradients_of(step_action);
    if (buffers.written() != nullptr) {
      shards_.ledger.operations().add(gradients.dtype(),
                                      gradients.at(0),
                                      config_.gradient_dtype,
                                      buffers.written(),
                                      config_.units[home].trained);
    }
    if (config_.strategy.gradients == Scope::kReplicated && buffers.has_outputs()) {
      add_gradients(shards_, action, home, gradients, scheduler.plan().shape.micro_batches);
    }
  }
  return progress_.end_computation(computing_since_);
}

}  // namespace paro
