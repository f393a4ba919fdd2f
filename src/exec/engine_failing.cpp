// How operations end that cannot complete: all of them by a failure, the job's or this rank's own;
// some of them when a rank has left that they need.
#include <spdlog/fmt/fmt.h>

#include <utility>
#include <vector>

#include "base/log.hpp"
#include "exec/engine.hpp"

namespace ho {

void Engine::fail(const Status& why) {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  if (!broken_) {
    broken_ = why;
  }
  changed_.notify_all();
  shm_->wake();
}

Status Engine::fail_everywhere(const RunError& error) {
  const Caller caller(callers_);
  Lock lock(mutex_);
  fail_locally(lock, error);
  return *broken_;
}

void Engine::peer_left(PeerLeaveNotice leave_notice) {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  leave_notices_.add(std::move(leave_notice));
  leave_notices_new_ = true;
  changed_.notify_all();
  shm_->wake();
}

void Engine::no_more_leave_notices() {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  leave_notices_over_ = true;
  if (network_ != nullptr) {
    network_->watch_unconnected_peers();
  }
  changed_.notify_all();
}

void Engine::end_all() {
  if (options_.work != nullptr) {
    options_.work->forget_given();
  }
  for (auto& [key, queue] : lanes_) {
    // The others behind it have not begun.
    const std::string here = queue.front()->run_->waiting_text();
    for (const auto& operation : queue) {
      const std::string name = operation->run_->call().name();
      // The operation that failed first is named by its own error.
      const bool named = broken_->message().starts_with(name);
      const bool waited = operation == queue.front() && !here.empty();
      end(*operation,
          named ? *broken_
                : broken_->with_context(waited ? fmt::format("{}, in {}", name, here) : name));
    }
  }
  lanes_.clear();
  end_all_messages();
}

// Operations before a leave notice stay and complete: what the rank that left has sent for them is
// here or on its way. Unless the transport would still use the memory of those that ended: then
// nothing may move any more.
bool Engine::end_departed() {
  leave_notices_new_ = false;
  bool any = end_departed_messages();
  for (auto lane = lanes_.begin(); lane != lanes_.end();) {
    Queue& queue = lane->second;
    while (!queue.empty()) {
      Operation& last = *queue.back();
      const std::optional<Status> departed = leave_notices_.against(last.place_);
      if (!departed) {
        break;
      }
      const Status why = departed->with_context(last.run_->call().name());
      log_error("{}", why.message());
      end(last, why);
      queue.pop_back();
      any = true;
      if (network_ != nullptr && !network_->forgets_abandoned() && !broken_) {
        broken_ = *departed;
      }
    }
    lane = queue.empty() ? lanes_.erase(lane) : std::next(lane);
  }
  return any;
}

// Waits for the leave notice, or for a decision that makes it needless. If neither arrives, the
// peer has not left: its connection is broken.
bool Engine::explained_by_leave_notice(Lock& lock, const RunError& error) {
  const StatusCode code = error.status.code();
  if (!error.peer || (code != StatusCode::kPeerLost && code != StatusCode::kConnection)) {
    return false;
  }
  const Deadline timeout = deadline_after(kLeaveNoticeTimeout);
  while (!broken_ && !end_departed()) {
    if (leave_notices_over_) {
      return false;
    }
    if (changed_.wait_until(lock, timeout) == std::cv_status::timeout) {
      return end_departed();
    }
  }
  return !broken_;
}

// The rank whose call differs then reports what differs, and that is the decision. A rank whose
// part was over has gone on, so the call that differs may be an earlier one.
void Engine::await_comparison(Lock& lock, const RunError& error) {
  if (!error.other_call) {
    return;
  }
  constexpr size_t kAskedBack = 8;
  std::vector<MadeCall> calls;
  for (const auto& [key, queue] : lanes_) {
    const OperationPlace& place = queue.front()->place_;
    const auto made = calls_.until(place.channel, place.number, kAskedBack);
    calls.insert(calls.end(), made.begin(), made.end());
  }
  ask_about(lock, calls);
  const Deadline timeout = deadline_after(kComparisonTimeout);
  while (!broken_ && changed_.wait_until(lock, timeout) != std::cv_status::timeout) {
  }
}

// The first error of this rank is reported to all ranks; the answer is the job's first cause, which
// may be another rank's. Without an answer the rank's own error stands.
void Engine::fail_locally(Lock& lock, const RunError& error) {
  if (explained_by_leave_notice(lock, error)) {
    return;
  }
  await_comparison(lock, error);
  if (!reported_ && !broken_) {
    reported_ = true;
    lock.unlock();
    owner_.on_failure(error);
    lock.lock();
  }
  const Deadline timeout = deadline_after(kDecisionTimeout);
  while (!broken_ && changed_.wait_until(lock, timeout) != std::cv_status::timeout) {
  }
  if (!broken_) {
    broken_ = error.status;
  }
  end_all();
}

bool Engine::ask_about_long_waits(Lock& lock, Deadline* next) {
  std::vector<MadeCall> due;
  const Deadline now = Clock::now();
  for (auto& [key, queue] : lanes_) {
    Operation& front = *queue.front();
    const Run& run = *front.run_;
    if (front.long_wait_.take_due(run.done_pieces(), run.call().timeout, now)) {
      due.push_back(front.call_);
    }
    *next = std::min(*next, front.long_wait_.next());
  }
  if (due.empty()) {
    return false;
  }
  ask_about(lock, due);
  return true;
}

void Engine::ask_about(Lock& lock, const std::vector<MadeCall>& calls) const {
  lock.unlock();
  for (const MadeCall& call : calls) {
    owner_.on_doubt(call);
  }
  lock.lock();
}

Status Engine::compare_call(const MadeCall& peer) {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  return calls_.compare(peer);
}

// The operation whose deadline has passed. It may be one that still queues behind another of its
// channel, whose own deadline is later: then the first one has what they wait for.
RunError Engine::late_operation() const {
  if (auto late = late_message()) {
    return *std::move(late);
  }
  for (const auto& [key, queue] : lanes_) {
    for (const auto& operation : queue) {
      const Call& call = operation->run_->call();
      if (passed(call.deadline)) {
        return {{StatusCode::kTimeout,
                 fmt::format("{} did not complete within {} ms; this rank waits in: {}",
                             call.name(),
                             call.timeout.count(),
                             queue.front()->run_->waiting_text())},
                std::nullopt};
      }
    }
  }
  return {{StatusCode::kInternal, "a deadline passed that belongs to no operation"}, std::nullopt};
}

}  // namespace ho
