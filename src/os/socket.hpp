// TCP sockets and their addresses. All sockets are non-blocking and close-on-exec.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

// An IPv4 or IPv6 address with a port.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t bytes);
  // "10.1.0.1" or "fe80::1%eth0"; no names, and no short forms as "10.1". kInvalidArgument.
  [[nodiscard]] static Result<SocketAddress> numeric(std::string_view host, uint16_t port);
  // Of AF_INET, whose bytes are the first four, or AF_INET6, without a scope.
  using HostBytes = std::array<std::byte, 16>;
  [[nodiscard]] static SocketAddress of(int family, const HostBytes& host, uint16_t port);
  // Every address of this host: "::" and, for where IPv6 is off, "0.0.0.0", in this order.
  [[nodiscard]] static std::vector<SocketAddress> any(uint16_t port);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] uint16_t port() const;
  void set_port(uint16_t port);
  // Zeros stand behind those of IPv4.
  [[nodiscard]] HostBytes host_bytes() const;
  [[nodiscard]] bool is_loopback() const;
  // Of one family, with the same bytes and scope; ports do not matter.
  [[nodiscard]] bool same_host(const SocketAddress& other) const;
  // An IPv6 address that needs an interface of this host, its scope, to mean something.
  [[nodiscard]] bool is_link_local() const;
  // The number of that interface; 0: none.
  [[nodiscard]] uint32_t scope() const;
  void set_scope(uint32_t interface_index);
  // Numeric; an IPv4 address in IPv6 form ("::ffff:10.1.0.1") comes out as IPv4.
  [[nodiscard]] std::string host() const;
  // "10.1.0.1:4000" or "[fe80::1]:4000"
  [[nodiscard]] std::string to_string() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_bytes_ = 0;
};

// Names and numeric addresses, in the resolver's order. Blocks as long as the resolver does.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);
// The addresses of this host's interfaces that are up and by which other hosts may know it,
// loopback last. A link-local one is none: it means something only with an interface of the
// reader's own.
[[nodiscard]] Result<std::vector<SocketAddress>> interface_addresses(uint16_t port);

// Whether an interface of this host can carry anything now. Unknown: there is none of that name.
enum class InterfaceState : uint8_t { kUp, kDown, kNoCarrier, kUnknown };
[[nodiscard]] InterfaceState interface_state(const std::string& name);

inline constexpr int kBacklog = 1024;  // connections that wait to be accepted
// Whether a socket on "::" is there for IPv4 too.
enum class Families : uint8_t { kBoth, kOwn };
// Listens with SO_REUSEADDR. Port 0: at a free one of HORING_PORT_RANGE, where that is not set at
// one that the kernel chooses.
[[nodiscard]] Result<Fd> listen_on(const SocketAddress& address, Families serves = Families::kBoth);
// The same at every address of this host.
[[nodiscard]] Result<Fd> listen_anywhere(uint16_t port);
// The same at several addresses whose port is 0, all at one port.
[[nodiscard]] Result<std::vector<Fd>> listen_at_one_port(std::span<const SocketAddress> addresses,
                                                         Families serves);
// Keeps a port for a listener that comes later, maybe in another process: while this is open, only
// who sets SO_REUSEADDR and asks for this very port gets it. Until then connections are refused.
// The address' port is 0: the kernel chooses.
[[nodiscard]] Result<Fd> reserve_port(const SocketAddress& address,
                                      Families serves = Families::kBoth);
struct Accepted {
  Fd fd;
  SocketAddress peer;
};
// Nothing when no connection waits.
[[nodiscard]] Result<std::optional<Accepted>> accept_from(int listener);

[[nodiscard]] Result<SocketAddress> local_address(int fd);
[[nodiscard]] Result<SocketAddress> peer_address(int fd);
// Small messages leave at once.
[[nodiscard]] Status set_no_delay(int fd);
// Until this end sends something soon after it has received: what has come is acknowledged when it
// is read, and does not wait for data to go with it.
[[nodiscard]] Status acknowledge_at_once(int fd);
// The kernel asks the peer's host whether it is there, once nothing has come for `idle_s`, and ends
// the connection after `count` questions without an answer: as a rule within about a minute.
struct KeepAlive {
  int idle_s = 20;
  int interval_s = 10;
  int count = 4;
};
[[nodiscard]] Status set_keep_alive(int fd, const KeepAlive& how = {});

}  // namespace ho
