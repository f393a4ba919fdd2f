#include "os/event_fd.hpp"

#include <sys/eventfd.h>

#include <cerrno>

namespace ho {

Result<EventFd> EventFd::create() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) {
    return system_error("eventfd", errno);
  }
  return EventFd(std::move(fd));
}

void EventFd::ring() const {
  const uint64_t one = 1;
  // The only failures are a full counter, which is readable already, and a descriptor that a peer
  // replaced by something else, which is that peer's loss.
  while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

uint64_t EventFd::drain() const {
  uint64_t count = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), &count, sizeof(count));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(count)) ? count : 0;
}

}  // namespace ho
