// How a thread that drives sleeps where nothing can move: on shared memory's doorbell, or on the
// descriptors of the network and of a device.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <vector>

#include "exec/engine.hpp"

namespace ho {
namespace {

// An upper bound for one sleep. Wake-ups do not depend on it; it bounds what a lost one would cost.
constexpr std::chrono::milliseconds kLongestSleep{500};
// How often a caller's stream is looked at that must get to a call first.
constexpr std::chrono::microseconds kEntryPoll{50};
// How often work of a device is looked at that cannot wake the engine.
constexpr std::chrono::milliseconds kUnwokenPoll{1};
constexpr int64_t kNsPerSecond = 1000000000;

}  // namespace

RunWait Engine::merged_wait(Deadline* earliest) const {
  RunWait merged = messages_.wait_state();
  for (const auto& [order, transfer] : messages_.transfers()) {
    *earliest = std::min(*earliest, transfer->deadline);
  }
  for (const auto& [key, queue] : lanes_) {
    const Run& run = *queue.front()->run_;
    const RunWait wait = run.wait_state();
    merged.network |= wait.network;
    merged.intra_releases |= wait.intra_releases;
    if (wait.intra_arrivals > 0) {
      merged.intra_arrivals = merged.intra_arrivals == 0
                                  ? wait.intra_arrivals
                                  : std::min(merged.intra_arrivals, wait.intra_arrivals);
    }
    for (const auto& operation : queue) {
      *earliest = std::min(*earliest, operation->run_->call().deadline);
    }
  }
  return merged;
}

// epoll_wait() costs less, and counts in milliseconds.
void Engine::wait_for_descriptors(std::chrono::nanoseconds most) const {
  if (options_.work == nullptr) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(most).count();
    std::array<epoll_event, 2> events{};
    (void)::epoll_wait(epoll_.get(), events.data(), 2, static_cast<int>(ms));
    return;
  }
  const timespec time{static_cast<time_t>(most.count() / kNsPerSecond),
                      static_cast<long>(most.count() % kNsPerSecond)};
  pollfd ready{epoll_.get(), POLLIN, 0};
  (void)::ppoll(&ready, 1, &time, nullptr);
}

void Engine::sleep_on_descriptors(Lock& lock, const WaitHint& hint, Deadline until) {
  // Where the device is lost, the next look at the work says so; else polling does without.
  if (options_.work != nullptr && !options_.work->wake_when_completed().ok()) {
    until = std::min(until, deadline_after(kUnwokenPoll));
  }
  if (shm_->prepare_wait(hint) && (network_ == nullptr || network_->prepare_wait(hint))) {
    lock.unlock();
    wait_for_descriptors(std::max(left(until), std::chrono::nanoseconds(0)));
    lock.lock();
  }
  if (network_ != nullptr) {
    network_->finish_wait();
  }
  shm_->finish_wait();
  if (options_.work != nullptr) {
    options_.work->clear_wake();
  }
}

void Engine::sleep(Lock& lock, Deadline deadline) {
  Deadline until = deadline_after(kLongestSleep);
  Deadline earliest = Deadline::max();
  const RunWait wait = merged_wait(&earliest);
  if (closing_ && end_messages_in_vain()) {
    return;
  }
  if (passed(earliest)) {
    fail_locally(lock, late_operation());
    return;
  }
  Deadline next_question = Deadline::max();
  if (ask_about_long_waits(lock, &next_question)) {
    return;  // what has come meanwhile goes first
  }
  until = std::min({until, deadline, earliest, next_question});
  const WaitHint hint{wait.intra_arrivals, wait.intra_releases};
  const int64_t began = now_ns();
  const bool on_device = options_.work != nullptr && options_.work->pending();
  if (options_.work != nullptr && any_not_entered()) {
    until = std::min(until, Clock::now() + kEntryPoll);
  }
  if (on_device || (wait.network && network_ != nullptr)) {
    sleep_on_descriptors(lock, hint, until);
  } else if (shm_->prepare_sleep(hint)) {
    lock.unlock();
    shm_->sleep(until);
    lock.lock();
    shm_->finish_sleep();
  }
  const int64_t slept = now_ns() - began;
  for (const auto& [key, queue] : lanes_) {
    queue.front()->run_->add_wait_ns(slept);
  }
}

}  // namespace ho
