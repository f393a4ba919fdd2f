#include "exec/sleeper.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace ho {
namespace {

// An upper bound for one sleep. Wake-ups do not depend on it; it bounds what a lost one would cost.
constexpr std::chrono::milliseconds kLongestSleep{500};
// The same where links of the network may be lost meanwhile: their peers wait for an answer, and
// who holds the lock of the engine is asked for it (LinkService).
constexpr std::chrono::milliseconds kLongestSleepOnMemory{50};
// How often work of a device is looked at that cannot wake the engine.
constexpr std::chrono::milliseconds kUnwokenPoll{1};
constexpr int64_t kNsPerSecond = 1000000000;

Status watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_error("epoll_ctl", errno);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Sleeper>> Sleeper::create(ShmTransport& shm,
                                                 Transport* network,
                                                 device::Work* work) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return system_error("epoll_create1", errno);
  }
  HORING_TRY(watch(epoll.get(), shm.wait_fd()));
  if (network != nullptr) {
    HORING_TRY(watch(epoll.get(), network->wait_fd()));
  }
  if (work != nullptr) {
    HORING_TRY(watch(epoll.get(), work->wait_fd()));
  }
  return std::unique_ptr<Sleeper>(new Sleeper(shm, network, work, std::move(epoll)));
}

void Sleeper::sleep(Lock& lock, const RunWait& wait, Deadline until) {
  until = std::min(until, deadline_after(kLongestSleep));
  const WaitHint hint{wait.intra_arrivals, wait.intra_releases, wait.network_releases};
  const bool on_device = work_ != nullptr && work_->pending();
  if (on_device || (wait.network && network_ != nullptr)) {
    sleep_on_descriptors(lock, hint, until);
  } else if (shm_.prepare_sleep(hint)) {
    if (network_ != nullptr && network_->service() != Transport::Service::kNone) {
      until = std::min(until, deadline_after(kLongestSleepOnMemory));
    }
    lock.unlock();
    shm_.sleep(until);
    lock.lock();
    shm_.finish_sleep();
  }
}

void Sleeper::sleep_on_descriptors(Lock& lock, const WaitHint& hint, Deadline until) {
  // Where the device is lost, the next look at the work says so; else polling does without.
  if (work_ != nullptr && !work_->wake_when_completed().ok()) {
    until = std::min(until, deadline_after(kUnwokenPoll));
  }
  if (shm_.prepare_wait(hint) && (network_ == nullptr || network_->prepare_wait(hint))) {
    lock.unlock();
    wait_for_descriptors(std::max(left(until), std::chrono::nanoseconds(0)));
    lock.lock();
  }
  if (network_ != nullptr) {
    network_->finish_wait();
  }
  shm_.finish_wait();
  if (work_ != nullptr) {
    work_->clear_wake();
  }
}

// epoll_wait() costs less, and counts in milliseconds.
void Sleeper::wait_for_descriptors(std::chrono::nanoseconds most) const {
  if (work_ == nullptr) {
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

}  // namespace ho
