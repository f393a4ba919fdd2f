#include "exec/collective_queues.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace ho {

Result<std::shared_ptr<Operation>> CollectiveQueues::submit(Submission&& submission,
                                                            const std::optional<Status>& cause,
                                                            const LeaveNotices& notices) {
  Call& call = submission.call;
  Counters& counters = counters_.at(call.channel);
  call.sequence = counters.entered + 1;
  if (cause) {
    return cause->with_context(call.name());
  }
  if (const auto why_left = notices.against({call.channel, call.sequence})) {
    return why_left->with_context(call.name());
  }
  counters.entered = call.sequence;
  counters.last = call.collective;
  const MadeCall made{call.channel, call.labelled ? ++labelled_ : 0, call.frame()};
  auto operation = std::make_shared<CollectiveOperation>(context_, made, std::move(submission));
  queues_[made.channel].push_back(operation);
  return std::shared_ptr<Operation>(std::move(operation));
}

bool CollectiveQueues::step(std::optional<RunError>& error) {
  bool moved = false;
  for (auto queue = queues_.begin(); queue != queues_.end() && !error;) {
    moved |= step_first(queue->second, error);
    queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
  }
  return moved;
}

bool CollectiveQueues::step_first(Queue& queue, std::optional<RunError>& error) {
  CollectiveOperation& operation = *queue.front();
  bool moved = false;
  error = operation.step(&moved);
  if (error) {
    return false;
  }
  if (!operation.joinable() && operation.enqueued()) {
    operation.make_joinable();
    woken_ = true;
  }
  if (operation.over()) {
    const std::shared_ptr<CollectiveOperation> ended = std::move(queue.front());
    queue.pop_front();
    ++counters_.at(ended->position().channel).completed;
    end(*ended, ended->outcome());
    return true;
  }
  return moved;
}

void CollectiveQueues::end(CollectiveOperation& operation, const Status& status) {
  operation.end(status);
  woken_ = true;
}

void CollectiveQueues::end_all(const Status& cause) {
  for (auto& [channel, queue] : queues_) {
    // The others behind it have not begun.
    const std::string here = queue.front()->run().waiting_text();
    for (const auto& operation : queue) {
      const std::string name = operation->run().call().name();
      // The operation that failed first is named by its own error.
      const bool named = cause.message().starts_with(name);
      const bool waited = operation == queue.front() && !here.empty();
      end(*operation,
          named ? cause : cause.with_context(waited ? fmt::format("{}, in {}", name, here) : name));
    }
  }
  queues_.clear();
}

// Operations before a leave notice stay and complete: what the rank that left has sent for them is
// here or on its way.
EndedByLeave CollectiveQueues::end_of_left(const LeaveNotices& notices) {
  EndedByLeave ended;
  for (auto each = queues_.begin(); each != queues_.end();) {
    Queue& queue = each->second;
    while (!queue.empty()) {
      CollectiveOperation& last = *queue.back();
      const std::optional<Status> why_left = notices.against(last.position());
      if (!why_left) {
        break;
      }
      const Status why = why_left->with_context(last.run().call().name());
      log_error("{}", why.message());
      end(last, why);
      queue.pop_back();
      ended.any = true;
      ended.abandoned = ended.abandoned ? ended.abandoned : why_left;
    }
    each = queue.empty() ? queues_.erase(each) : std::next(each);
  }
  return ended;
}

bool CollectiveQueues::any_background() const {
  return std::ranges::any_of(queues_, [](const auto& queue) {
    return std::ranges::any_of(queue.second,
                               [](const auto& operation) { return operation->background(); });
  });
}

bool CollectiveQueues::any_awaits_entry() const {
  return std::ranges::any_of(
      queues_, [](const auto& queue) { return queue.second.front()->awaits_entry(); });
}

uint64_t CollectiveQueues::largest_bytes() const {
  uint64_t largest = 0;
  for (const auto& [channel, queue] : queues_) {
    largest = std::max(largest, queue.front()->run().moved_bytes());
  }
  return largest;
}

void CollectiveQueues::add_waits(RunWait* wait, Deadline* earliest) const {
  for (const auto& [channel, queue] : queues_) {
    const RunWait own = queue.front()->run().wait_state();
    wait->network |= own.network;
    wait->intra_releases |= own.intra_releases;
    wait->network_releases |= own.network_releases;
    if (own.intra_arrivals > 0) {
      wait->intra_arrivals = wait->intra_arrivals == 0
                                 ? own.intra_arrivals
                                 : std::min(wait->intra_arrivals, own.intra_arrivals);
    }
    for (const auto& operation : queue) {
      *earliest = std::min(*earliest, operation->run().call().deadline);
    }
  }
}

void CollectiveQueues::add_wait_ns(int64_t ns) {
  for (const auto& [channel, queue] : queues_) {
    queue.front()->add_wait_ns(ns);
  }
}

void CollectiveQueues::note_waits() {
  for (const auto& [channel, queue] : queues_) {
    queue.front()->note_wait();
  }
}

// It may be one that still queues behind another of its channel, whose own deadline is later: then
// the first one has what they wait for.
std::optional<RunError> CollectiveQueues::late() const {
  for (const auto& [channel, queue] : queues_) {
    for (const auto& operation : queue) {
      const Call& call = operation->run().call();
      if (passed(call.deadline)) {
        return RunError{{StatusCode::kTimeout,
                         fmt::format("{} did not complete within {} ms; this rank waits in: {}",
                                     call.name(),
                                     call.timeout.count(),
                                     queue.front()->run().waiting_text())},
                        std::nullopt};
      }
    }
  }
  return std::nullopt;
}

std::vector<MadeCall> CollectiveQueues::take_due_questions(Deadline now, Deadline* next) {
  std::vector<MadeCall> due;
  for (const auto& [channel, queue] : queues_) {
    if (queue.front()->question_due(now, next)) {
      due.push_back(queue.front()->made());
    }
  }
  return due;
}

std::vector<MadeCall> CollectiveQueues::calls_up_to_first() const {
  constexpr size_t kCallsBack = 8;
  std::vector<MadeCall> calls;
  for (const auto& [channel, queue] : queues_) {
    const OperationPosition position = queue.front()->position();
    const auto made = context_.recorder->until(position.channel, position.number, kCallsBack);
    calls.insert(calls.end(), made.begin(), made.end());
  }
  return calls;
}

std::vector<ChannelState> CollectiveQueues::states() const {
  std::vector<ChannelState> states;
  for (uint8_t channel = 0; channel < kChannelCount; ++channel) {
    if (channel == kMessageChannel) {
      continue;
    }
    ChannelState state{
        channel, counters_.at(channel).entered, counters_.at(channel).completed, "", ""};
    if (const auto found = queues_.find(channel); found != queues_.end()) {
      const Queue& queue = found->second;
      const Run& run = queue.front()->run();
      state.operation = std::string(to_string(run.call().collective));
      state.waiting = run.waiting_text();
      const auto held = std::ranges::find_if(queue, [](const auto& each) { return each->held(); });
      state.held = held == queue.end() ? 0 : (*held)->position().number;
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::array<ChannelProgress, kChannelCount> CollectiveQueues::progress() const {
  std::array<ChannelProgress, kChannelCount> progress;
  for (size_t channel = 0; channel < counters_.size(); ++channel) {
    const Counters& counters = counters_.at(channel);
    progress.at(channel) = {counters.entered,
                            counters.last ? std::string(to_string(*counters.last)) : ""};
  }
  return progress;
}

uint64_t CollectiveQueues::memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [channel, queue] : queues_) {
    for (const auto& operation : queue) {
      bytes += operation->memory_bytes();
    }
  }
  return bytes;
}

}  // namespace ho
