#include "transport/tcp/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace ho::tcp {
namespace {

constexpr int kBacklog = 1024;
// Keep-alive: a connection on which nothing is in flight is given up after 5 + 3 * 2 seconds.
constexpr int kIdleSeconds = 5;
constexpr int kIntervalSeconds = 2;
constexpr int kProbes = 3;

int set_int(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : errno;
}

// Linux lets anybody bind to a device since 5.7; before, and in some sandboxes, it is refused. The
// address still picks the interface there unless two of them have one subnet.
void bind_to_device(int fd, const std::string& name) {
  if (::setsockopt(
          fd, SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size())) !=
      0) {
    log_debug("SO_BINDTODEVICE({}): {}; routing chooses the interface by address",
              name,
              system_error("setsockopt", errno).message());
  }
}

// The interface on which the first packet of an accepted IPv4 connection came in; 0: unknown.
unsigned incoming_interface(int fd) {
  if (set_int(fd, IPPROTO_IP, IP_PKTINFO, 1) != 0) {
    return 0;
  }
  alignas(cmsghdr) std::array<unsigned char, 256> buffer{};
  auto size = static_cast<socklen_t>(buffer.size());
  unsigned found = 0;
  if (::getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, buffer.data(), &size) == 0) {
    msghdr message{};
    message.msg_control = buffer.data();
    message.msg_controllen = size;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
        in_pktinfo incoming{};
        std::memcpy(&incoming, CMSG_DATA(part), sizeof incoming);
        found = static_cast<unsigned>(incoming.ipi_ifindex);
      }
    }
  }
  set_int(fd, IPPROTO_IP, IP_PKTINFO, 0);
  return found;
}

bool same_host(const Address& a, const sockaddr& raw) {
  if (a.family() != raw.sa_family) {
    return false;
  }
  if (a.family() == AF_INET) {
    sockaddr_in mine{};
    sockaddr_in other{};
    std::memcpy(&mine, &a.storage, sizeof mine);
    std::memcpy(&other, &raw, sizeof other);
    return mine.sin_addr.s_addr == other.sin_addr.s_addr;
  }
  if (a.family() != AF_INET6) {
    return false;
  }
  sockaddr_in6 mine{};
  sockaddr_in6 other{};
  std::memcpy(&mine, &a.storage, sizeof mine);
  std::memcpy(&other, &raw, sizeof other);
  return IN6_ARE_ADDR_EQUAL(&mine.sin6_addr, &other.sin6_addr) &&
         mine.sin6_scope_id == other.sin6_scope_id;
}

}  // namespace

Result<Address> parse_address(const std::string& numeric, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (numeric.empty() || ::getaddrinfo(numeric.c_str(), service.c_str(), &hints, &found) != 0) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + numeric + "' is not a numeric IPv4 or IPv6 address");
  }
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  // "10.1" means 10.0.0.1 to the resolver; such addresses would not compare equal to what the
  // kernel reports.
  if (address.family() == AF_INET && to_text(address) != numeric) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + numeric + "' is not a numeric address with four parts");
  }
  return address;
}

std::string to_text(const Address& address) {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(address.raw(),
                    address.size,
                    host.data(),
                    static_cast<socklen_t>(host.size()),
                    nullptr,
                    0,
                    NI_NUMERICHOST) != 0) {
    return "?";
  }
  return host.data();
}

uint16_t port_of(const Address& address) {
  if (address.family() == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.storage, sizeof six);
    return ntohs(six.sin6_port);
  }
  sockaddr_in four{};
  std::memcpy(&four, &address.storage, sizeof four);
  return ntohs(four.sin_port);
}

std::string host_and_port(const std::string& host, uint16_t port) {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> local_address(int fd) {
  Address address;
  address.size = sizeof address.storage;
  if (::getsockname(fd, address.raw(), &address.size) != 0) {
    return system_error("getsockname", errno);
  }
  return address;
}

Result<Address> peer_address(int fd) {
  Address address;
  address.size = sizeof address.storage;
  if (::getpeername(fd, address.raw(), &address.size) != 0) {
    return system_error("getpeername", errno);
  }
  return address;
}

Result<Fd> open_listener(int family, uint16_t port) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return system_error("socket for the tcp data port", errno);
  }
  if (family == AF_INET6) {
    set_int(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  }
  HORING_ASSIGN(const Address wildcard, parse_address(family == AF_INET6 ? "::" : "0.0.0.0", port));
  if (::bind(fd.get(), wildcard.raw(), wildcard.size) != 0) {
    return system_error("bind of the tcp data port " + std::to_string(port), errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) {
    return system_error("listen on the tcp data port", errno);
  }
  return fd;
}

bool is_on_another_interface(const Address& address, const std::string& interface_name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    log_debug("{}", system_error("getifaddrs", errno).message());
    return false;
  }
  bool on_another = false;
  bool on_this = false;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && same_host(address, *each->ifa_addr)) {
      (interface_name == each->ifa_name ? on_this : on_another) = true;
    }
  }
  ::freeifaddrs(list);
  return on_another && !on_this;
}

Result<Dialled> dial(const RailInterface& rail, const Address& to) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return system_error("socket", errno);
  }
  if (!rail.name.empty() && !is_on_another_interface(to, rail.name)) {
    bind_to_device(fd.get(), rail.name);
  }
  set_traffic_class(fd.get(), rail.traffic_class);  // before the first packet
  HORING_ASSIGN(const Address from, parse_address(rail.address, 0));
  if (from.family() != to.family()) {
    return Status(StatusCode::kInvalidArgument,
                  "this end of the rail is " + rail.address + " but the peer's is " + to_text(to) +
                      "; give both ends of a rail addresses of one family");
  }
  // The port is chosen at connect, so that thousands of connections to many peers can share it.
  set_int(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (::bind(fd.get(), from.raw(), from.size) != 0) {
    return system_error("bind(" + rail.address + "): is that still an address of this host?",
                        errno);
  }
  Dialled dialled{std::move(fd), 0};
  if (::connect(dialled.fd.get(), to.raw(), to.size) != 0 && errno != EINPROGRESS) {
    dialled.connect_errno = errno;
  }
  return dialled;
}

void set_traffic_class(int fd, int32_t traffic_class) {
  if (traffic_class < 0) {
    return;
  }
  int family = AF_INET;
  socklen_t size = sizeof family;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  const bool six = family == AF_INET6;
  const int error = six ? set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, traffic_class)
                        : set_int(fd, IPPROTO_IP, IP_TOS, traffic_class);
  if (error != 0) {
    log_warn("a connection goes without its traffic class {}: {}",
             traffic_class,
             system_error("setsockopt", error).message());
  }
}

void bind_accepted(int fd, const RailInterface& rail) {
  if (rail.name.empty()) {
    return;
  }
  const Result<Address> local = local_address(fd);
  const Result<Address> peer = peer_address(fd);
  if (!local.ok() || !peer.ok() || is_on_another_interface(*peer, rail.name)) {
    return;
  }
  // IPv4 hosts answer ARP on any interface; binding to one that packets do not come in on would cut
  // the connection off.
  if (local->family() == AF_INET && incoming_interface(fd) != ::if_nametoindex(rail.name.c_str())) {
    log_debug("a connection to {} did not come in on {}; not bound to it", rail.address, rail.name);
    return;
  }
  bind_to_device(fd, rail.name);
}

void tune_data_socket(int fd) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, kIntervalSeconds);
  set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace ho::tcp
