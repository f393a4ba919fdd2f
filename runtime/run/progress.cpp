// What is under way: collectives start when they may, complete in the order of their channel, and
// are waited for where something needs them.
#include <utility>

#include "run/collectives.hpp"
#include "run/step_runner.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kCollectives{Channel::kReductions, Channel::kSyncs, Channel::kGathers};

void add(SentBytes& sum, const SentBytes& one) {
  sum.intra += one.intra;
  sum.inter += one.inter;
}

}  // namespace

void StepRunner::watch(const Node& node, Clock::time_point since) const {
  if (config().watch) {
    config().watch({node, since, Clock::now()});
  }
}

ho::Status StepRunner::break_with(const ho::Status& status, const Node& node) {
  return shards_.break_unless_ok(status, scheduler_.describe(node));
}

ho::Status StepRunner::start_agree(Transfer& transfer) {
  const double factor = updater_.averaging_factor(shards_, scheduler_.micro_batches());
  const Norm norm = updater_.norm(shards_, factor, not_finite_);
  agreed_ = StepSums(
      norm.squared, norm.not_finite, learning_rate(config()), signals_, loads_.any(), discards_);
  return transfer.all_reduce(shards_.domains->over_world(), agreed_.data(), StepSums::kCount);
}

ho::Status StepRunner::start(const Node& node) {
  const Action& action = scheduler_.action(node);
  const ActionId id = node.action;
  const auto since = Clock::now();
  auto transfer = std::make_unique<Transfer>(
      shards_.ledger, shards_.transfer_options(), is_merged(action) ? buffers_.pack(id) : nullptr);
  ho::Status status;
  if (action.act == Act::kAgree) {
    status = start_agree(*transfer);
  } else if (action.act == Act::kGather) {
    status = start_gather(shards_, buffers_, action, id, *transfer);
  } else {
    const std::vector<ElementView> places = reduced_buffers(shards_, buffers_, action, id);
    if (action.from == Scope::kReplicated) {
      not_finite_.look_at_own(shards_, action, places, scheduler_.micro_batches());
    }
    status = start_reduction(shards_, action, places, *transfer);
  }
  running_[static_cast<size_t>(action.channel)].push_back({node, std::move(transfer), since});
  return status.ok() ? status : break_with(status, node);
}

ho::Status StepRunner::complete(Running& running) {
  const Action& action = scheduler_.action(running.node);
  if (const ho::Status status = running.transfer->finish(); !status.ok()) {
    return break_with(status, running.node);
  }
  add(sent_[static_cast<size_t>(action.phase)], running.transfer->sent());
  add(counted_.sent, running.transfer->sent());
  counted_.collective_ns += running.transfer->took_ns();
  if (action.content == Content::kGradients && action.phase == Phase::kBackward) {
    for (const uint32_t unit : units_of(action)) {
      const ElementView gradients = buffers_.output(shards_, action, running.node.action, unit);
      add_gradients(shards_, action, unit, gradients, plan().shape.micro_batches);
    }
  }
  scheduler_.end(running.node);
  watch(running.node, running.since);
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

ho::Status StepRunner::look_at_ends() {
  return shards_.break_unless_ok(ends_->look(), name(scheduler_.step()));
}

ho::Status StepRunner::wait_for(Transfer& transfer) {
  constexpr uint64_t kGlanceMs = 20;
  while (ends_->waits() && !transfer.over_within(kGlanceMs)) {
    HORING_TRY(look_at_ends());
  }
  return {};
}

ho::Status StepRunner::pump() {
  HORING_TRY(broken());
  HORING_TRY(look_at_ends());
  for (const Channel channel : kCollectives) {
    HORING_TRY(complete_what_is_over(channel));
  }
  for (const Channel channel : kCollectives) {
    while (const auto node = scheduler_.start(channel)) {
      HORING_TRY(start(*node));
    }
  }
  return {};
}

ho::Status StepRunner::finish(Node node) {
  const Channel channel = scheduler_.action(node).channel;
  auto& running = running_[static_cast<size_t>(channel)];
  HORING_TRY(pump());
  while (!scheduler_.ended(node)) {
    if (!running.empty()) {
      const auto start = Clock::now();
      HORING_TRY(wait_for(*running.front().transfer));
      HORING_TRY(complete(running.front()));
      counted_.wait_ns += ns_between(start, Clock::now());
      running.pop_front();
      HORING_TRY(pump());
      continue;
    }
    // Nothing runs on its channel: the next action there waits for another channel.
    const Node blocked = *scheduler_.next(channel);
    while (const auto before = scheduler_.collective_before(blocked)) {
      HORING_TRY(finish(*before));
    }
    HORING_TRY(pump());
    if (running.empty() && !scheduler_.ended(node)) {
      const auto before = scheduler_.computation_before(blocked);
      return break_with({ho::StatusCode::kInternal,
                         "cannot start; it waits for a computation that is not over" +
                             (before ? ": " + scheduler_.describe(*before) : "")},
                        blocked);
    }
  }
  return {};
}

ho::Status StepRunner::settle() {
  for (const Channel channel : {Channel::kGathers, Channel::kReductions}) {
    for (auto next = scheduler_.next(channel); next && next->step == scheduler_.step();
         next = scheduler_.next(channel)) {
      if (scheduler_.action(*next).act == Act::kAgree || scheduler_.computation_before(*next)) {
        break;
      }
      HORING_TRY(finish(*next));
    }
    auto& running = running_[static_cast<size_t>(channel)];
    while (!running.empty()) {
      HORING_TRY(finish(running.back().node));
    }
  }
  return {};
}

}  // namespace paro
