#include "os/interface_events.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace ho {

Fd open_interface_events() {
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  const bool bound =
      fd.valid() &&
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return bound ? std::move(fd) : Fd();
}

bool drain_interface_events(int fd) {
  std::array<std::byte, 8192> message{};
  bool any = false;
  while (true) {
    const ssize_t got = ::recv(fd, message.data(), message.size(), MSG_TRUNC);
    // So many that some were dropped: events too.
    const bool came = got > 0 || (got < 0 && errno == ENOBUFS);
    const bool interrupted = got < 0 && errno == EINTR;
    if (!came && !interrupted) {
      return any;
    }
    any = any || came;
  }
}

}  // namespace ho
