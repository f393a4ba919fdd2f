#include "transport/tcp/poller.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ho::tcp {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

Result<std::unique_ptr<Poller>> Poller::create() {
  std::unique_ptr<Poller> poller(new Poller);  // NOLINT: the constructor is private
  poller->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!poller->epoll_.valid()) {
    return system_error("epoll_create1 for the tcp transport", errno);
  }
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) {
    return system_error("timerfd_create for the tcp transport", errno);
  }
  poller->timer_ = std::make_unique<Socket>(std::move(timer));
  HORING_TRY(poller->add(*poller->timer_));
  return poller;
}

Status Poller::add(Socket& socket) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (&socket != timer_.get()) {
    event.events |= EPOLLOUT | EPOLLRDHUP;
  }
  event.data.ptr = &socket;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.fd.get(), &event) != 0) {
    return system_error("epoll_ctl(add) for the tcp transport", errno);
  }
  socket.epoll = epoll_.get();
  socket.process = ::getpid();
  return {};
}

void Poller::wake_at(int64_t time_ns) {
  if (time_ns >= timer_set_for_ns_) {
    return;
  }
  timer_set_for_ns_ = std::max<int64_t>(time_ns, 1);  // 0 would disarm
  itimerspec spec{};
  spec.it_value.tv_sec = timer_set_for_ns_ / kNsPerSecond;
  spec.it_value.tv_nsec = timer_set_for_ns_ % kNsPerSecond;
  ::timerfd_settime(timer_->fd.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

Result<bool> Poller::poll() {
  std::array<epoll_event, 64> events;  // NOLINT: filled by epoll_wait
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count < 0 && errno != EINTR) {
      return system_error("epoll_wait in the tcp transport", errno);
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events.at(static_cast<size_t>(i));
      auto* socket = static_cast<Socket*>(event.data.ptr);
      socket->hung_up |= (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      socket->readable |= socket->hung_up || (event.events & EPOLLIN) != 0;
      socket->writable |= (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
      if (socket->event != nullptr) {
        *socket->event = true;
      }
    }
  } while (count < 0 || static_cast<size_t>(count) == events.size());

  if (!timer_->readable) {
    return false;
  }
  timer_->readable = false;
  uint64_t expirations = 0;
  const bool expired =
      ::read(timer_->fd.get(), &expirations, sizeof expirations) == ssize_t{sizeof expirations};
  if (expired) {
    timer_set_for_ns_ = kNeverNs;
  }
  return expired;
}

}  // namespace ho::tcp
