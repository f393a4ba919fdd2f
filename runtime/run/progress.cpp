#include <utility>

#include "optim/gradients.hpp"
#include "run/step_runner.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kCollectives{Channel::kReductions, Channel::kSyncs, Channel::kGathers};

uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

}  // namespace

bool StepRunner::ended(uint64_t node) const {
  return times_ended_[node % plan_.actions.size()] > node / plan_.actions.size();
}

bool StepRunner::may_start(uint64_t node) const {
  const uint64_t count = plan_.actions.size();
  const uint64_t step = node / count;
  const Action& action = action_of(node);
  if (action.act == Act::kAgree && !deciding_) {
    return false;
  }
  for (const ActionId id : action.after) {
    if (!ended(step * count + id)) {
      return false;
    }
  }
  for (const ActionId id : action.after_previous) {
    if (step > 0 && !ended((step - 1) * count + id)) {
      return false;
    }
  }
  return true;
}

// One reordered unit on a channel at a time: so much memory was predicted. Merged reductions have
// their own.
bool StepRunner::may_pack(uint64_t node) const {
  const Action& action = action_of(node);
  return !reorders_ || !moves_parts_of_world(action) || is_merged(action) ||
         running_[static_cast<size_t>(action.channel)].empty();
}

void StepRunner::mark_ended(uint64_t node, Clock::time_point since) {
  const uint64_t count = plan_.actions.size();
  ++times_ended_[node % count];
  if (config_.watch) {
    config_.watch({node / count, static_cast<ActionId>(node % count), since, Clock::now()});
  }
}

Place StepRunner::gathered_place(const Action& action, uint64_t node) const {
  const auto& buffers = action.content == Content::kFrozen ? gathered_frozen_ : gathered_trained_;
  const uint32_t slot = slot_[node % plan_.actions.size()] % (config_.prefetch + 1);
  return {buffers[slot].get(), config_.parameter_dtype};
}

Place StepRunner::output_place(uint64_t node, uint32_t unit) const {
  if (config_.strategy.gradients == Scope::kReplicated) {  // not kept for a reduction
    return {outputs_.front().get(), config_.gradient_dtype};
  }
  const uint32_t output = output_[node % plan_.actions.size()] % kGradientBuffers;
  // Of a unit that shares another's it is a bucket of its own.
  const uint64_t place = action_of(node).shared ? 0 : bucket_places_.offsets[unit];
  const uint64_t offset = place * ho::size_bytes(config_.gradient_dtype);
  return {outputs_[output].get() + offset, config_.gradient_dtype};
}

std::byte* StepRunner::pack_of(uint64_t node) const {
  const uint32_t pack = pack_[node % plan_.actions.size()] % kPackBuffers;
  return is_merged(action_of(node)) ? packs_[pack].get() : nullptr;
}

ho::Status StepRunner::break_with(const ho::Status& status, uint64_t node) {
  return break_unless_ok(status,
                         "step " + std::to_string(node / plan_.actions.size() + 1) + " of " +
                             letters(config_.strategy) + ", " + describe(plan_, action_of(node)));
}

ho::Status StepRunner::break_unless_ok(const ho::Status& status, const std::string& what) {
  if (!status.ok() && broken_.ok()) {
    broken_ = status.with_context("rank " + std::to_string(domains_->self().value()) + ", " + what);
    // Ranks of other sets would wait for this one until their deadlines.
    domains_->abort(broken_.message().c_str());
  }
  return broken_;
}

ho::Status StepRunner::start_gather(const Action& action, uint64_t node, Transfer& transfer) {
  const bool frozen = action.content == Content::kFrozen;
  const Routes& routes = (frozen ? frozen_routes_ : trained_routes_)[action.unit];
  const Storage& held = frozen ? units_[action.unit].frozen : units_[action.unit].parameters;
  const bool sync_p = action.phase == Phase::kSyncP;
  return transfer.gather(
      routes.of(action.domain), held, sync_p ? Place(held) : gathered_place(action, node));
}

ho::Status StepRunner::start_reduction(const Action& action, uint64_t node, Transfer& transfer) {
  const Routes& all_routes =
      is_merged(action) ? merged_routes_.at(action.unit) : trained_routes_[action.unit];
  const auto& routes = all_routes.of(action.domain);
  const bool accumulates = action.phase == Phase::kBackward;
  std::vector<Place> places;
  for (const uint32_t unit : units_of(action)) {
    places.push_back(accumulates ? output_place(node, unit) : Place(units_[unit].sums));
  }
  if (action.from == Scope::kReplicated) {
    look_at_own(action, places);
  }
  if (config_.mistake == Mistake::kSkipGroupsOfOne && action.domain == Domain::kInter &&
      domains_->intra() == nullptr) {
    return {};
  }
  return action.act == Act::kAllReduce ? transfer.all_reduce(routes, places)
                                       : transfer.reduce_scatter(routes, places);
}

ho::Status StepRunner::start(uint64_t node) {
  const Action& action = action_of(node);
  const auto since = Clock::now();
  auto transfer = std::make_unique<Transfer>(
      ledger_, TransferOptions{config_.algorithm, config_.timeout_ms}, pack_of(node));
  ho::Status status;
  if (action.act == Act::kAgree) {
    status = start_agree(*transfer);
  } else if (action.act == Act::kGather) {
    status = start_gather(action, node, *transfer);
  } else {
    status = start_reduction(action, node, *transfer);
  }
  running_[static_cast<size_t>(action.channel)].push_back({node, std::move(transfer), since});
  return status.ok() ? status : break_with(status, node);
}

void StepRunner::add_gradients(const Action& action, uint32_t unit, const Place& gradients) {
  Storage& sums = units_[unit].sums;
  if (config_.mistake == Mistake::kOverwriteAccumulation) {
    sums.zero();
  }
  for (const Range& range : sums.ranges()) {
    std::byte* const sum = sums.at(range.begin);
    const std::byte* const from = gradients.at(range.begin);
    if (sums.dtype() == ho::DType::kFloat32) {
      accumulate(config_.gradient_dtype, {reinterpret_cast<float*>(sum), range.count()}, from);
    } else {
      accumulate(config_.gradient_dtype, sum, from, range.count());
    }
  }
  // A unit that shares these parameters comes before their own: theirs is the last part.
  const bool last = !action.shared && home_of(config_.units, action.unit) == action.unit;
  if (last && action.micro_batch + 1 == plan_.shape.micro_batches) {
    sums.round_to(config_.gradient_dtype);
  }
}

ho::Status StepRunner::complete(Running& running) {
  const Action& action = action_of(running.node);
  if (const ho::Status status = running.transfer->finish(); !status.ok()) {
    return break_with(status, running.node);
  }
  SentBytes& sent = sent_[static_cast<size_t>(action.phase)];
  sent.intra += running.transfer->sent().intra;
  sent.inter += running.transfer->sent().inter;
  counted_.sent.intra += running.transfer->sent().intra;
  counted_.sent.inter += running.transfer->sent().inter;
  counted_.collective_ns += running.transfer->took_ns();
  if (action.content == Content::kGradients && action.phase == Phase::kBackward) {
    for (const uint32_t unit : units_of(action)) {
      add_gradients(action, unit, output_place(running.node, unit));
    }
  }
  mark_ended(running.node, running.since);
  return {};
}

ho::Status StepRunner::complete_what_is_over(Channel channel) {
  auto& running = running_[static_cast<size_t>(channel)];
  while (!running.empty() && running.front().transfer->over()) {
    HORING_TRY(complete(running.front()));
    running.pop_front();
  }
  return {};
}

ho::Status StepRunner::start_what_can(Channel channel) {
  const auto c = static_cast<size_t>(channel);
  const auto& queue = queues_[c];
  while (!queue.empty()) {
    const uint64_t step = next_[c] / queue.size();
    const uint64_t node = step * plan_.actions.size() + queue[next_[c] % queue.size()];
    if (is_left_out(node)) {
      ++times_ended_[node % plan_.actions.size()];
      ++next_[c];
      continue;
    }
    // Gathers of the next step wait for what the framework does before it: load(), a checkpoint.
    if (step > steps_ || (step == steps_ && !in_step_) || !may_start(node) || !may_pack(node)) {
      return {};
    }
    ++next_[c];
    HORING_TRY(start(node));
  }
  return {};
}

ho::Status StepRunner::look_at_ends() {
  return break_unless_ok(ends_->look(), "step " + std::to_string(steps_ + 1));
}

ho::Status StepRunner::wait_for(Transfer& transfer) {
  constexpr uint64_t kGlanceMs = 20;
  while (ends_->waits() && !transfer.over_within(kGlanceMs)) {
    HORING_TRY(look_at_ends());
  }
  return {};
}

ho::Status StepRunner::pump() {
  HORING_TRY(broken_);
  HORING_TRY(look_at_ends());
  for (const Channel channel : kCollectives) {
    HORING_TRY(complete_what_is_over(channel));
  }
  for (const Channel channel : kCollectives) {
    HORING_TRY(start_what_can(channel));
  }
  return {};
}

ho::Status StepRunner::finish(uint64_t node) {
  const uint64_t count = plan_.actions.size();
  const auto c = static_cast<size_t>(action_of(node).channel);
  HORING_TRY(pump());
  while (!ended(node)) {
    if (!running_[c].empty()) {
      const auto start = Clock::now();
      HORING_TRY(wait_for(*running_[c].front().transfer));
      HORING_TRY(complete(running_[c].front()));
      counted_.wait_ns += ns_since(start);
      running_[c].pop_front();
      HORING_TRY(pump());
      continue;
    }
    // Nothing runs on its channel: the next action there waits for another channel.
    const auto& queue = queues_[c];
    const uint64_t step = next_[c] / queue.size();
    const uint64_t blocked = step * count + queue[next_[c] % queue.size()];
    for (const ActionId id : action_of(blocked).after) {
      if (action_of(id).channel != Channel::kCompute) {
        HORING_TRY(finish(step * count + id));
      }
    }
    for (const ActionId id : action_of(blocked).after_previous) {
      if (step > 0 && action_of(id).channel != Channel::kCompute) {
        HORING_TRY(finish((step - 1) * count + id));
      }
    }
    HORING_TRY(pump());
    if (running_[c].empty() && !ended(node)) {
      return break_with(
          {ho::StatusCode::kInternal, "cannot start; it waits for a computation that is not over"},
          blocked);
    }
  }
  return {};
}

}  // namespace paro
