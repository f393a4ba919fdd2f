#include "os/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ho {

ProcessWatch::ProcessWatch(pid_t pid)
    : process_(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1) {}

bool ProcessWatch::ended() const {
  if (!process_.valid()) {
    return false;
  }
  pollfd events{process_.get(), POLLIN, 0};
  return ::poll(&events, 1, 0) == 1;
}

}  // namespace ho
