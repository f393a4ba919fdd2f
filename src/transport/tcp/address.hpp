// Numeric addresses and the socket calls that need them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "os/fd.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::tcp {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] const sockaddr* raw() const {
    return reinterpret_cast<const sockaddr*>(&storage);  // NOLINT: the sockets API's own idiom
  }
  [[nodiscard]] sockaddr* raw() {
    return reinterpret_cast<sockaddr*>(&storage);  // NOLINT: the sockets API's own idiom
  }
};

// "10.1.0.1", "fd00::1", "fe80::1%eth0". Names are not resolved.
[[nodiscard]] Result<Address> parse_address(const std::string& numeric, uint16_t port);
// Without the port; "?" when it cannot be printed.
[[nodiscard]] std::string to_text(const Address& address);
[[nodiscard]] uint16_t port_of(const Address& address);
// "10.1.0.1:80", "[fd00::1]:80"
[[nodiscard]] std::string host_and_port(const std::string& host, uint16_t port);

[[nodiscard]] Result<Address> local_address(int fd);
[[nodiscard]] Result<Address> peer_address(int fd);

// A listening socket on the wildcard address; port 0 lets the kernel choose.
[[nodiscard]] Result<Fd> open_listener(int family, uint16_t port);
// Whether another interface of this network namespace than `interface_name` has that address. The
// kernel keeps packets to it inside the host: a socket that is bound to an interface would send
// them out of it, where nobody hears them.
[[nodiscard]] bool is_on_another_interface(const Address& address,
                                           const std::string& interface_name);
// A socket on the rail's interface with a connect under way to `to`; not bound to the interface
// where `to` is on another one of this host. in_progress: not refused yet.
struct Dialled {
  Fd fd;
  int connect_errno = 0;  // 0: connected or under way
};
[[nodiscard]] Result<Dialled> dial(const RailInterface& rail, const Address& to);

// IP's TOS byte, or IPv6's traffic class, of what the socket sends; nothing where it is negative.
void set_traffic_class(int fd, int32_t traffic_class);
// For an accepted connection: answers leave through the rail's interface too, also where several
// interfaces have one subnet. Left alone when the connection did not come in there, or came from
// another interface of this host.
void bind_accepted(int fd, const RailInterface& rail);
// No delay, keep-alive that notices a dead rail within about 11 s while nothing is in flight.
void tune_data_socket(int fd);

}  // namespace ho::tcp
