// Steps of fewer micro-batches, and of none.
//
// A plan has a fixed number of micro-batches. Where a step ends before, what the others would have
// gathered ahead by then is still gathered, since some ranks may have begun with it: which gathers
// those are follows from the computations that are over, which all ranks have in common. Ranks that
// end a step differently find out meanwhile (step_ends.hpp). Then the actions of the micro-batches
// that do not come count as ended, and the step goes on to its sync-g. After a step's last
// micro-batch the agreement that ends it tells whether all ranks drop it instead.
#include <algorithm>
#include <utility>

#include "run/step_runner.hpp"

namespace paro {

ho::Result<uint32_t> StepRunner::micro_batches_over(const char* what) const {
  HORING_TRY(broken());
  const uint64_t over = scheduler_.computations_over();
  const uint64_t each = 2 * config().units.size();
  if (computing_ || over % each != 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument,
                      std::string(what) + " in the middle of micro-batch " +
                          std::to_string(over / each) + ": call it after its after_backward(0)");
  }
  return static_cast<uint32_t>(over / each);
}

// The others are told first: some may go on, and find out while they wait for this rank.
ho::Status StepRunner::agree_on_end(StepEnds::Next end, uint32_t micro_batches) {
  const std::string step = name(scheduler_.step());
  HORING_TRY(shards_.break_unless_ok(ends_->tell(micro_batches, end), step));
  HORING_TRY(settle());
  return shards_.break_unless_ok(ends_->finish(), step);
}

ho::Status StepRunner::agree_on_count(uint32_t count) {
  if (shards_.domains->world() == nullptr) {
    return {};
  }
  const std::string what = "set_micro_batches after step " + std::to_string(steps());
  HORING_ASSIGN(const auto all, shards_.gather(count, what));
  const auto other =
      std::find_if(all.begin(), all.end(), [&](uint64_t one) { return one != all.front(); });
  if (other == all.end()) {
    return {};
  }
  const std::vector<ho::GlobalRank> ranks = shards_.ranks();
  return {ho::StatusCode::kMismatch,
          what + ": rank " + std::to_string(ranks.front().value()) + " has " +
              std::to_string(all.front()) + " micro-batches, rank " +
              std::to_string(ranks[static_cast<size_t>(other - all.begin())].value()) + " " +
              std::to_string(*other) + "; all ranks must give the same number"};
}

ho::Result<StepReport> StepRunner::step_early() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("step_early"));
  if (over == 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument, "step_early before any micro-batch");
  }
  if (over == plan().shape.micro_batches) {
    return step();
  }
  HORING_TRY(agree_on_end(StepEnds::Next::kStepEarly, over));
  scheduler_.end_after(over);
  for (UnitState& unit : shards_.units) {
    unit.sums.round_to(config().gradient_dtype);
  }
  return step();
}

// Times that were counted since the last step stay.
void StepRunner::begin_step_anew() {
  const StepReport counted = std::exchange(counted_, {});
  const auto since = step_since_;
  go_on_from(scheduler_.step());
  counted_ = counted;
  step_since_ = since;
}

ho::Status StepRunner::discard() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("discard"));
  if (over == 0) {
    return {};  // the others cannot see it
  }
  HORING_TRY(over < plan().shape.micro_batches ? agree_on_end(StepEnds::Next::kDiscard, over)
                                               : decide(true));
  for (UnitState& unit : shards_.units) {
    unit.sums.zero();
  }
  begin_step_anew();
  return {};
}

ho::Status StepRunner::set_micro_batches(uint32_t count) {
  HORING_TRY(between_steps("set_micro_batches"));
  HORING_TRY(synchronize());
  // Before this rank's own number is looked at: the others may have given a right one.
  HORING_TRY(agree_on_count(count));
  if (count == 0 || count > config().micro_batches) {
    return {ho::StatusCode::kInvalidArgument,
            "set_micro_batches: " + std::to_string(count) + "; takes 1 to " +
                std::to_string(config().micro_batches) + ", what the runner was made for"};
  }
  return use_micro_batches(count);
}

ho::Status StepRunner::use_micro_batches(uint32_t count) {
  StepShape shape = plan().shape;
  if (count == shape.micro_batches) {
    return {};
  }
  shape.micro_batches = count;
  HORING_ASSIGN(StepPlan plan, build_step_plan(shape));
  HORING_TRY(prove(plan, groups()));
  const StepIndex step = scheduler_.step();
  scheduler_ = Scheduler(std::move(plan), packs_one_);
  scheduler_.restart(step);
  buffers_.follow(scheduler_.plan());
  begin_step_anew();
  return {};
}

ho::Status StepRunner::carry_over(const History& history) {
  sent_ = history.sent;
  loads_ = history.loads;
  return use_micro_batches(history.micro_batches);
}

}  // namespace paro
