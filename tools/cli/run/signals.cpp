#include "cli/run/signals.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

namespace ho {

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

Result<SignalQueue> SignalQueue::open() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    ::sigaddset(&wanted, number);
  }
  // Blocked first: the init process of a pid namespace would drop a signal that it does not handle.
  if (::sigprocmask(SIG_BLOCK, &wanted, nullptr) != 0) {
    return system_error("sigprocmask", errno);
  }
  ::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return system_error("signalfd", errno);
  }
  return SignalQueue(std::move(fd));
}

std::optional<Signal> SignalQueue::next() {
  signalfd_siginfo record{};
  if (::read(fd_.get(), &record, sizeof record) != static_cast<ssize_t>(sizeof record)) {
    return std::nullopt;
  }
  return Signal{static_cast<int>(record.ssi_signo), record.ssi_code == SI_KERNEL};
}

Signal SignalQueue::wait() {
  while (true) {
    if (const std::optional<Signal> signal = next(); signal.has_value()) {
      return *signal;
    }
    pollfd readable{fd_.get(), POLLIN, 0};
    (void)::poll(&readable, 1, -1);
  }
}

}  // namespace ho
