#include "os/socket.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace ho {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Where an address of the family has its host's.
struct HostPart {
  size_t offset;
  size_t bytes;
};

HostPart host_part(int family) {
  return family == AF_INET6 ? HostPart{offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)}
                            : HostPart{offsetof(sockaddr_in, sin_addr), sizeof(in_addr)};
}

Result<AddressList> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  AddressList owned(list, &::freeaddrinfo);
  if (error != 0) {
    return Status(StatusCode::kConnection,
                  "host \"" + host + "\" has no address: " + ::gai_strerror(error));
  }
  return owned;
}

Result<SocketAddress> address_by(int (&ask)(int, sockaddr*, socklen_t*), const char* what, int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (ask(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return system_error(what, errno);
  }
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address), bytes);
}

Status set_option(int fd, int level, int name, int value, const char* what) {
  if (::setsockopt(fd, level, name, &value, sizeof value) != 0) {
    return system_error(what, errno);
  }
  return {};
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t bytes)
    : size_bytes_(std::min<socklen_t>(bytes, sizeof storage_)) {
  std::memcpy(&storage_, address, size_bytes_);
}

Result<SocketAddress> SocketAddress::numeric(std::string_view host, uint16_t port) {
  const auto list = look_up(std::string(host), port, AI_NUMERICHOST);
  // An empty name would be loopback to the resolver.
  if (host.empty() || !list.ok()) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + std::string(host) + "' is not a numeric IPv4 or IPv6 address");
  }
  SocketAddress address((*list)->ai_addr, (*list)->ai_addrlen);
  if (address.family() == AF_INET && address.host() != host) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + std::string(host) + "' is not a numeric address with four parts");
  }
  return address;
}

SocketAddress SocketAddress::of(int family, const HostBytes& host, uint16_t port) {
  SocketAddress address;
  const HostPart part = host_part(family);
  address.storage_.ss_family = family == AF_INET6 ? AF_INET6 : AF_INET;
  address.size_bytes_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(reinterpret_cast<char*>(&address.storage_) + part.offset, host.data(), part.bytes);
  address.set_port(port);
  return address;
}

std::vector<SocketAddress> SocketAddress::any(uint16_t port) {
  return {of(AF_INET6, {}, port), of(AF_INET, {}, port)};
}

SocketAddress::HostBytes SocketAddress::host_bytes() const {
  HostBytes host{};
  const HostPart part = host_part(family());
  std::memcpy(host.data(), reinterpret_cast<const char*>(&storage_) + part.offset, part.bytes);
  return host;
}

uint16_t SocketAddress::port() const {
  // sin_port and sin6_port lie at the same offset.
  sockaddr_in four{};
  std::memcpy(&four, &storage_, sizeof four);
  return ntohs(four.sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  const uint16_t value = htons(port);
  std::memcpy(
      reinterpret_cast<char*>(&storage_) + offsetof(sockaddr_in, sin_port), &value, sizeof value);
}

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), size_bytes_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) !=
      0) {
    return "?";
  }
  const std::string_view host(text.data());
  constexpr std::string_view kMapped = "::ffff:";
  const bool mapped =
      host.starts_with(kMapped) && host.find('.', kMapped.size()) != std::string_view::npos;
  return std::string(mapped ? host.substr(kMapped.size()) : host);
}

bool SocketAddress::same_host(const SocketAddress& other) const {
  return family() == other.family() && host_bytes() == other.host_bytes() &&
         scope() == other.scope();
}

bool SocketAddress::is_loopback() const {
  const std::string text = host();
  return text == "::1" || text.starts_with("127.");
}

bool SocketAddress::is_link_local() const {
  sockaddr_in6 six{};
  std::memcpy(&six, &storage_, sizeof six);
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr);
}

uint32_t SocketAddress::scope() const {
  sockaddr_in6 six{};
  std::memcpy(&six, &storage_, sizeof six);
  return family() == AF_INET6 ? six.sin6_scope_id : 0;
}

void SocketAddress::set_scope(uint32_t interface_index) {
  std::memcpy(reinterpret_cast<char*>(&storage_) + offsetof(sockaddr_in6, sin6_scope_id),
              &interface_index,
              sizeof interface_index);
}

std::string SocketAddress::to_string() const {
  const std::string text = host();
  const bool six = text.find(':') != std::string::npos;
  return (six ? "[" + text + "]" : text) + ":" + std::to_string(port());
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  HORING_ASSIGN(const AddressList list, look_up(host, port, 0));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) {
      addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
    }
  }
  return addresses;
}

Result<std::vector<SocketAddress>> interface_addresses(uint16_t port) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return system_error("getifaddrs", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  std::vector<SocketAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) {
      continue;
    }
    SocketAddress address(entry->ifa_addr,
                          family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (address.host().find('%') == std::string::npos) {
      address.set_port(port);
      addresses.push_back(address);
    }
  }
  std::stable_partition(addresses.begin(), addresses.end(), [](const SocketAddress& address) {
    return !address.is_loopback();
  });
  return addresses;
}

InterfaceState interface_state(const std::string& name) {
  ifreq request{};
  if (name.empty() || name.size() >= sizeof request.ifr_name) {
    return InterfaceState::kUnknown;
  }
  std::ranges::copy(name, std::begin(request.ifr_name));
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any.valid() || ::ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) {
    return InterfaceState::kUnknown;
  }
  const auto flags = static_cast<unsigned>(request.ifr_flags);  // NOLINT: what the call fills
  if ((flags & unsigned{IFF_UP}) == 0) {
    return InterfaceState::kDown;
  }
  return (flags & unsigned{IFF_RUNNING}) == 0 ? InterfaceState::kNoCarrier : InterfaceState::kUp;
}

Result<std::optional<Accepted>> accept_from(int listener) {
  constexpr int kMaxGone = 64;
  int error = 0;
  for (int gone = 0; gone < kMaxGone; ++gone) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    Fd fd(::accept4(
        listener, reinterpret_cast<sockaddr*>(&peer), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      return std::optional<Accepted>(
          Accepted{std::move(fd), SocketAddress(reinterpret_cast<const sockaddr*>(&peer), bytes)});
    }
    error = errno;
    switch (error) {
      case EAGAIN:
        return std::optional<Accepted>();
      // All but the first: the connection that waited is gone again, or may not come in.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EPERM:
      case ENETDOWN:
      case ENETUNREACH:
      case EHOSTDOWN:
      case EHOSTUNREACH:
      case ENOPROTOOPT:
      case EOPNOTSUPP:
      case ENONET:
        continue;
      default:
        return system_error("accept", error);
    }
  }
  return system_error("accept", error);
}

Result<SocketAddress> local_address(int fd) {
  return address_by(::getsockname, "getsockname", fd);
}

Result<SocketAddress> peer_address(int fd) {
  return address_by(::getpeername, "getpeername", fd);
}

Status set_no_delay(int fd) {
  return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "setsockopt(TCP_NODELAY)");
}

Status acknowledge_at_once(int fd) {
  return set_option(fd, IPPROTO_TCP, TCP_QUICKACK, 1, "setsockopt(TCP_QUICKACK)");
}

Status set_keep_alive(int fd, const KeepAlive& how) {
  HORING_TRY(set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "setsockopt(SO_KEEPALIVE)"));
  HORING_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, how.idle_s, "setsockopt(TCP_KEEPIDLE)"));
  HORING_TRY(
      set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, how.interval_s, "setsockopt(TCP_KEEPINTVL)"));
  return set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, how.count, "setsockopt(TCP_KEEPCNT)");
}

}  // namespace ho
