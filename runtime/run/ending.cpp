// Steps of fewer micro-batches, and of none.
//
// A plan has a fixed number of micro-batches. Where a step ends before, what the others would have
// gathered ahead by then is still gathered, since some ranks may have begun with it: which gathers
// those are follows from the computations that are over, which all ranks have in common. Ranks that
// end a step differently find out meanwhile (step_ends.hpp). Then the actions of the micro-batches
// that do not come count as ended, and the step goes on to its sync-g. After a step's last
// micro-batch the agreement that ends it tells whether all ranks drop it instead.
#include <array>
#include <utility>

#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {

ho::Result<uint32_t> StepRunner::micro_batches_over(const char* what) const {
  HORING_TRY(broken_);
  const auto c = static_cast<size_t>(Channel::kCompute);
  const uint64_t slots = next_[c] - steps_ * queues_[c].size();
  const uint64_t each = 2 * config_.units.size();
  if (computing_ || slots % each != 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument,
                      std::string(what) + " in the middle of micro-batch " +
                          std::to_string(slots / each) + ": call it after its after_backward(0)");
  }
  return static_cast<uint32_t>(slots / each);
}

ho::Status StepRunner::settle() {
  const uint64_t count = plan_.actions.size();
  for (const Channel channel : {Channel::kGathers, Channel::kReductions}) {
    const auto c = static_cast<size_t>(channel);
    while (!queues_[c].empty() && next_[c] / queues_[c].size() == steps_) {
      const uint64_t node = steps_ * count + queues_[c][next_[c] % queues_[c].size()];
      const Action& action = action_of(node);
      bool free = action.act != Act::kAgree;
      for (const ActionId id : action.after) {
        free =
            free && (plan_.actions[id].channel != Channel::kCompute || ended(steps_ * count + id));
      }
      if (!free) {
        break;
      }
      HORING_TRY(finish(node));
    }
    while (!running_[c].empty()) {
      HORING_TRY(finish(running_[c].back().node));
    }
  }
  return {};
}

// The others are told first: some may go on, and find out while they wait for this rank.
ho::Status StepRunner::agree_on_end(StepEnds::Next end, uint32_t micro_batches) {
  const std::string step = "step " + std::to_string(steps_ + 1);
  HORING_TRY(break_unless_ok(ends_->tell(micro_batches, end), step));
  HORING_TRY(settle());
  return break_unless_ok(ends_->finish(), step);
}

ho::Status StepRunner::agree_on_count(uint32_t count) {
  if (domains_->world() == nullptr) {
    return {};
  }
  const uint64_t mine = count;
  const auto all = all_gather_values(domains_->world(), {&mine, 1}, config_.timeout_ms);
  HORING_TRY(
      break_unless_ok(all.status(), "set_micro_batches after step " + std::to_string(steps_)));
  const std::vector<ho::GlobalRank> ranks = world_order(domains_->groups());
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (all.value()[rank] != all.value()[0]) {
      return {ho::StatusCode::kMismatch,
              "set_micro_batches after step " + std::to_string(steps_) + ": rank " +
                  std::to_string(ranks[0].value()) + " has " + std::to_string(all.value()[0]) +
                  " micro-batches, rank " + std::to_string(ranks[rank].value()) + " " +
                  std::to_string(all.value()[rank]) + "; all ranks must give the same number"};
    }
  }
  return {};
}

bool StepRunner::is_left_out(uint64_t node) const {
  const Action& action = action_of(node);
  return node / plan_.actions.size() == steps_ && action.micro_batch >= step_micro_batches_ &&
         (action.phase == Phase::kForward || action.phase == Phase::kBackward);
}

ho::Result<StepReport> StepRunner::step_early() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("step_early"));
  if (over == 0) {
    return ho::Status(ho::StatusCode::kInvalidArgument, "step_early before any micro-batch");
  }
  if (over == plan_.shape.micro_batches) {
    return step();
  }
  HORING_TRY(agree_on_end(StepEnds::Next::kStepEarly, over));
  step_micro_batches_ = over;
  const auto& computations = queues_[static_cast<size_t>(Channel::kCompute)];
  uint64_t& next = next_[static_cast<size_t>(Channel::kCompute)];
  for (; is_left_out(steps_ * plan_.actions.size() + computations[next % computations.size()]);
       ++next) {
    ++times_ended_[computations[next % computations.size()]];
  }
  for (UnitState& unit : units_) {
    unit.sums.round_to(config_.gradient_dtype);
  }
  return step();
}

void StepRunner::begin_step_anew() {
  const StepReport counted = std::exchange(counted_, {});
  const auto since = step_since_;
  go_on_from(steps_);
  counted_ = counted;
  step_since_ = since;
}

ho::Status StepRunner::discard() {
  HORING_ASSIGN(const uint32_t over, micro_batches_over("discard"));
  if (over == 0) {
    return {};  // the others cannot see it
  }
  HORING_TRY(over < plan_.shape.micro_batches ? agree_on_end(StepEnds::Next::kDiscard, over)
                                              : decide(true));
  for (UnitState& unit : units_) {
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
  if (count == 0 || count > config_.micro_batches) {
    return {ho::StatusCode::kInvalidArgument,
            "set_micro_batches: " + std::to_string(count) + "; takes 1 to " +
                std::to_string(config_.micro_batches) + ", what the runner was made for"};
  }
  return use_micro_batches(count);
}

ho::Status StepRunner::use_micro_batches(uint32_t count) {
  if (count == plan_.shape.micro_batches) {
    return {};
  }
  StepShape shape = plan_.shape;
  shape.micro_batches = count;
  HORING_ASSIGN(StepPlan plan, build_step_plan(shape));
  HORING_TRY(prove(plan, domains_->groups()));
  plan_ = std::move(plan);
  queue_actions();
  begin_step_anew();
  return {};
}

ho::Status StepRunner::carry_over(const History& history) {
  sent_ = history.sent;
  loaded_ = history.loaded;
  loads_ = history.loads;
  return use_micro_batches(history.micro_batches);
}

}  // namespace paro
