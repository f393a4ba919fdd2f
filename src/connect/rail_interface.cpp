#include "connect/rail_interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/log.hpp"

namespace ho {
namespace {

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

bool has_address(const ifaddrs& entry, const SocketAddress& address) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != address.family()) {
    return false;
  }
  return SocketAddress(entry.ifa_addr, address.size_bytes()).same_host(address);
}

// The interfaces of this network namespace that have the address.
std::vector<std::string> interfaces_with(const SocketAddress& address) {
  std::vector<std::string> names;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    log_debug("{}", system_error("getifaddrs", errno).message());
    return names;
  }
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (has_address(*each, address)) {
      names.emplace_back(each->ifa_name);
    }
  }
  ::freeifaddrs(list);
  return names;
}

// The port is chosen at connect, so that thousands of connections to many peers can share it.
Status bind_source(int fd, const std::string& address, const SocketAddress& to) {
  HORING_ASSIGN(SocketAddress from, SocketAddress::numeric(address, 0));
  if (from.is_link_local()) {
    from.set_scope(to.scope());  // also where the rail is not bound to its interface any more
  }
  if (from.family() != to.family()) {
    return {StatusCode::kInvalidArgument,
            "this end of the rail is " + address + " but the peer's is " + to.host() +
                "; give both ends of a rail addresses of one family"};
  }
  set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (::bind(fd, from.get(), from.size_bytes()) != 0) {
    return system_error("bind(" + address + "): is that still an address of this host?", errno);
  }
  return {};
}

}  // namespace

RailInterface rail_of(const NetworkInterface& interface, std::string address) {
  RailInterface rail;
  rail.name = interface.emulated ? std::string() : interface.name;
  rail.address = std::move(address);
  rail.emulated = interface.emulated;
  rail.pace = interface.pace;
  return rail;
}

SocketAddress address_on(const RailInterface& rail, SocketAddress address) {
  if (address.is_link_local()) {
    address.set_scope(::if_nametoindex(rail.name.c_str()));
  }
  return address;
}

Result<SocketAddress> address_on(const RailInterface& rail, std::string_view host, uint16_t port) {
  HORING_ASSIGN(const SocketAddress address, SocketAddress::numeric(host, port));
  return address_on(rail, address);
}

std::string interface_trouble(const RailInterface& rail) {
  switch (interface_state(rail.name)) {
    case InterfaceState::kDown:
      return "interface " + rail.name + " is down here (ip link set " + rail.name + " up)";
    case InterfaceState::kNoCarrier:
      return "interface " + rail.name + " has no carrier here (check cable and switch port)";
    case InterfaceState::kUp:
    case InterfaceState::kUnknown:
      break;
  }
  return {};
}

bool is_on_another_interface(const SocketAddress& address, const std::string& interface_name) {
  const std::vector<std::string> names = interfaces_with(address);
  return !names.empty() && std::ranges::find(names, interface_name) == names.end();
}

std::string address_is_ours_text(const RailInterface& from, const SocketAddress& to) {
  const std::vector<std::string> names = interfaces_with(to);
  if (from.name.empty() || to.is_loopback() || names.empty()) {
    return {};
  }
  return to.host() + " is an address of this host too (" + names.front() +
         "), so what is sent to it never leaves: where the peer is another host, give the two "
         "different addresses, or leave that interface out (HORING_SOCKET_IFNAME=^" +
         names.front() + ")";
}

Result<Dialled> dial(const RailInterface& from, const SocketAddress& to) {
  Dialled dialled{Fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
  const int fd = dialled.fd.get();
  if (!dialled.fd.valid()) {
    return system_error("socket for " + to.to_string(), errno);
  }
  if (!from.name.empty() && !is_on_another_interface(to, from.name)) {
    bind_to_device(fd, from.name);
  }
  set_traffic_class(fd, from.traffic_class);  // before the first packet
  if (!from.address.empty()) {
    HORING_TRY(bind_source(fd, from.address, to));
  }
  if (::connect(fd, to.get(), to.size_bytes()) != 0 && errno != EINPROGRESS && errno != EINTR) {
    dialled.connect_errno = errno;
  }
  return dialled;
}

bool is_bound_to_interface(int fd) {
  std::array<char, IFNAMSIZ> name{};
  socklen_t size = IFNAMSIZ;
  return ::getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &size) == 0 && size > 0;
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
  const Result<SocketAddress> local = local_address(fd);
  const Result<SocketAddress> peer = peer_address(fd);
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

}  // namespace ho
