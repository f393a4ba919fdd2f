#include "run/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace paro {

Scheduler::Scheduler(StepPlan plan, bool packs_one)
    : plan_(std::move(plan)),
      packs_one_(packs_one),
      times_ended_(plan_.actions.size(), 0),
      micro_batches_(plan_.shape.micro_batches) {
  for (ActionId id; id.at() < plan_.actions.size(); ++id) {
    cursors_[static_cast<size_t>(plan_.actions[id.at()].channel)].add(id);
  }
}

std::string Scheduler::describe(const Node& node) const {
  return name(node.step) + " of " + letters(plan_.shape.strategy) + ", " +
         paro::describe(plan_, action(node));
}

void Scheduler::leave_out(StepCursor& cursor) {
  for (; !cursor.empty() && cursor.node().step == step_; cursor.advance()) {
    const Node node = cursor.node();
    const Phase phase = action(node).phase;
    if (action(node).micro_batch < micro_batches_ ||
        (phase != Phase::kForward && phase != Phase::kBackward)) {
      return;
    }
    ++times_ended_[node.action.at()];
  }
}

void Scheduler::end_after(uint32_t micro_batches) {
  micro_batches_ = micro_batches;
  leave_out(cursors_[static_cast<size_t>(Channel::kCompute)]);
}

void Scheduler::end_step() {
  step_ = paro::next(step_);
  micro_batches_ = plan_.shape.micro_batches;
  in_step_ = false;
}

void Scheduler::restart(StepIndex step) {
  step_ = step;
  micro_batches_ = plan_.shape.micro_batches;
  in_step_ = false;
  may_agree_ = false;
  times_ended_.assign(times_ended_.size(), step.value);
  under_way_.fill(0);
  for (StepCursor& cursor : cursors_) {
    cursor.go_to(step);
  }
}

size_t Scheduler::computations_over() const {
  const StepCursor& computations = cursor(Channel::kCompute);
  return computations.node().step == step_ ? computations.place() : computations.size();
}

void Scheduler::end_computation() {
  StepCursor& computations = cursors_[static_cast<size_t>(Channel::kCompute)];
  ++times_ended_[computations.node().action.at()];
  computations.advance();
}

std::optional<Node> Scheduler::next(Channel channel) const {
  return cursor(channel).empty() ? std::nullopt : std::optional(cursor(channel).node());
}

std::optional<Node> Scheduler::start(Channel channel) {
  StepCursor& cursor = cursors_[static_cast<size_t>(channel)];
  leave_out(cursor);
  if (cursor.empty() || !may_start(cursor.node())) {
    return std::nullopt;
  }
  const Node node = cursor.node();
  cursor.advance();
  ++under_way_[static_cast<size_t>(channel)];
  return node;
}

void Scheduler::end(const Node& node) {
  ++times_ended_[node.action.at()];
  --under_way_[static_cast<size_t>(action(node).channel)];
  may_agree_ = may_agree_ && action(node).act != Act::kAgree;
}

bool Scheduler::may_start(const Node& node) const {
  const Action& wanted = action(node);
  // Gathers of the next step wait for what the framework does before it: load(), a checkpoint.
  const bool early = node.step > step_ || (node.step == step_ && !in_step_);
  const bool must_pack_alone = packs_one_ && moves_parts_of_world(wanted) && !is_merged(wanted);
  return !early && (wanted.act != Act::kAgree || may_agree_) &&
         (!must_pack_alone || under_way_[static_cast<size_t>(wanted.channel)] == 0) &&
         !first_before(node, [](const Action& /*any*/) { return true; });
}

template <typename Wanted>
std::optional<Node> Scheduler::first_before(const Node& node, const Wanted& wanted) const {
  const auto first = [&](const std::vector<ActionId>& ids, StepIndex step) -> std::optional<Node> {
    const auto found = std::find_if(ids.begin(), ids.end(), [&](ActionId id) {
      return !ended({step, id}) && wanted(plan_.actions[id.at()]);
    });
    return found == ids.end() ? std::nullopt : std::optional(Node{step, *found});
  };
  const auto found = first(action(node).after, node.step);
  return found || node.step == StepIndex{}
             ? found
             : first(action(node).after_previous, previous(node.step));
}

std::optional<Node> Scheduler::collective_before(const Node& node) const {
  return first_before(node, [](const Action& of) { return of.channel != Channel::kCompute; });
}

std::optional<Node> Scheduler::computation_before(const Node& node) const {
  return first_before(node, [](const Action& of) { return of.channel == Channel::kCompute; });
}

}  // namespace paro
