#include "connect/socket.hpp"

#include <sys/epoll.h>
#include <unistd.h>

namespace ho {

void Socket::close() {
  if (epoll >= 0 && fd.valid() && process == ::getpid()) {
    ::epoll_ctl(epoll, EPOLL_CTL_DEL, fd.get(), nullptr);
  }
  fd.reset();
}

}  // namespace ho
