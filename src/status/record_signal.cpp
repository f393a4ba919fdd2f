#include "status/record_signal.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>

#include "base/env.hpp"
#include "base/log.hpp"

namespace ho {
namespace {

// What the signal's handler rings; -1: nothing yet. Never closed: a handler may be about to write.
std::atomic<int> signalled_fd = -1;
std::atomic<bool> signalled = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// write() is one of the few calls that a handler may make.
void on_signal(int /*number*/) {
  const int error = errno;
  signalled = true;
  const uint64_t one = 1;
  (void)!::write(signalled_fd, &one, sizeof one);
  errno = error;
}

}  // namespace

// The handler stays when the service ends: by default most signals end a process.
void take_record_signal(const EventFd& wake) {
  const Result<std::optional<int>> number = env::record_signal();
  if (!number.ok() || !number->has_value()) {
    return;  // who begins a job is told what is wrong with it (env::check_numbers)
  }
  if (signalled_fd < 0) {
    signalled_fd = ::fcntl(wake.fd(), F_DUPFD_CLOEXEC, 0);
  } else {
    (void)::dup3(wake.fd(), signalled_fd, O_CLOEXEC);
  }
  struct sigaction there {};
  const int signal = **number;
  if (::sigaction(signal, nullptr, &there) == 0 && there.sa_handler != SIG_DFL &&
      there.sa_handler != SIG_IGN && there.sa_handler != on_signal) {
    log_warn("{}={}: the program has a handler for that signal, which stays",
             env::kRecordSignal.name,
             signal);
    return;
  }
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  if (::sigaction(signal, &ours, nullptr) != 0) {
    log_warn(
        "{}={}: {}", env::kRecordSignal.name, signal, system_error("sigaction", errno).message());
  }
}

bool take_record_request() {
  return signalled.exchange(false);
}

}  // namespace ho
