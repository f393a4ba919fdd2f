// Which port a listener gets: the one that it asks for, or a free one.
#include <netinet/in.h>

#include <cerrno>

#include "base/env.hpp"
#include "os/random_bytes.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

// Of a bind or listen.
struct Taken {
  Fd fd;
  Status why;
  bool in_use = false;  // not ok because somebody else has the port
};

Taken failed(const SocketAddress& address, const char* what) {
  const int error = errno;
  return {Fd(), system_error(what + (" " + address.to_string()), error), error == EADDRINUSE};
}

bool set_to(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// With `shared` also a port at which connections of an earlier listener are left, or that is kept
// for somebody (reserve_port).
Taken take_port(const SocketAddress& address, Families serves, bool shared) {
  Taken taken{Fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), {}};
  const int fd = taken.fd.get();
  if (!taken.fd.valid()) {
    return failed(address, "socket for");
  }
  const bool six = address.family() == AF_INET6;
  if ((six && !set_to(fd, IPPROTO_IPV6, IPV6_V6ONLY, serves == Families::kOwn ? 1 : 0)) ||
      !set_to(fd, SOL_SOCKET, SO_REUSEADDR, shared ? 1 : 0)) {
    return failed(address, "setsockopt for");
  }
  if (::bind(fd, address.get(), address.size_bytes()) != 0) {
    return failed(address, "bind");
  }
  // For who comes to the port after this socket.
  return shared || set_to(fd, SOL_SOCKET, SO_REUSEADDR, 1) ? std::move(taken)
                                                           : failed(address, "setsockopt for");
}

Taken listener_at(const SocketAddress& address, Families serves, bool shared) {
  Taken taken = take_port(address, serves, shared);
  if (taken.why.ok() && ::listen(taken.fd.get(), kBacklog) != 0) {
    return failed(address, "listen on");
  }
  return taken;
}

// Sets in_use where a port that somebody else has is why there are none. Port 0: that of the first,
// which the kernel chooses.
Result<std::vector<Fd>> listeners_at(std::span<const SocketAddress> addresses,
                                     uint16_t port,
                                     Families serves,
                                     bool shared,
                                     bool& in_use) {
  std::vector<Fd> listeners;
  in_use = false;
  for (SocketAddress address : addresses) {
    address.set_port(port);
    Taken taken = listener_at(address, serves, shared);
    in_use = taken.in_use;
    HORING_TRY(taken.why);
    if (port == 0) {
      HORING_ASSIGN(const SocketAddress bound, local_address(taken.fd.get()));
      port = bound.port();
    }
    listeners.push_back(std::move(taken.fd));
  }
  return listeners;
}

// From any port of the range on, so that processes which begin at once do not all try the same.
// Ports that nobody has had lately first: one that is kept for a listener to come would be taken
// else.
Result<std::vector<Fd>> listeners_in(const env::PortRange& range,
                                     std::span<const SocketAddress> addresses,
                                     Families serves) {
  const uint32_t count = uint32_t{range.last} - range.first + 1;
  uint32_t start = 0;
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&start, 1))));
  Status last;
  for (const bool shared : {false, true}) {
    for (uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(range.first + (start % count + i) % count);
      bool in_use = false;
      auto listeners = listeners_at(addresses, port, serves, shared, in_use);
      if (listeners.ok() || !in_use) {
        return listeners;
      }
      last = listeners.status();
    }
  }
  return Status(
      last.code(),
      std::string(env::kPortRange.name) + "=" + env::text(env::kPortRange) + ": " +
          (count == 1 ? "its one port is" : "all " + std::to_string(count) + " ports are") +
          " in use, at last " + last.message() +
          "; widen the range, or end what has them (ss -tlnp)");
}

}  // namespace

Result<Fd> reserve_port(const SocketAddress& address, Families serves) {
  Taken taken = take_port(address, serves, true);
  HORING_TRY(taken.why);
  return std::move(taken.fd);
}

Result<std::vector<Fd>> listen_at_one_port(std::span<const SocketAddress> addresses,
                                           Families serves) {
  HORING_ASSIGN(const auto range, env::port_range());
  if (range) {
    return listeners_in(*range, addresses, serves);
  }
  // What the kernel chooses for one address may be in use at another.
  constexpr int kAttempts = 16;
  for (int attempt = 1;; ++attempt) {
    bool in_use = false;
    auto listeners = listeners_at(addresses, 0, serves, true, in_use);
    if (listeners.ok() || !in_use || attempt == kAttempts) {
      return listeners;
    }
  }
}

Result<Fd> listen_on(const SocketAddress& address, Families serves) {
  if (address.port() == 0) {
    HORING_ASSIGN(auto listeners, listen_at_one_port(std::span(&address, 1), serves));
    return std::move(listeners.front());
  }
  Taken taken = listener_at(address, serves, true);
  HORING_TRY(taken.why);
  return std::move(taken.fd);
}

Result<Fd> listen_anywhere(uint16_t port) {
  Status last;
  for (const SocketAddress& address : SocketAddress::any(port)) {
    auto fd = listen_on(address);
    if (fd.ok()) {
      return fd;
    }
    last = fd.status();
  }
  return last;
}

}  // namespace ho
