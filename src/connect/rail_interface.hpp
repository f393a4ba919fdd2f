// A connection's own end: which of this host's interfaces it leaves from, and how its socket is set
// up. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"
#include "topo/topology.hpp"

namespace ho {

// One of this host's interfaces, as a rail.
struct RailInterface {
  std::string name;            // "rail0"; empty: not bound to a device
  std::string address;         // numeric, IPv4 or IPv6; empty: routing chooses
  int32_t traffic_class = -1;  // IP's TOS or traffic class byte of connections; negative: untouched
  bool emulated = false;
  std::optional<RailPace> pace{};  // nothing: as fast as it goes
};

// The interface as a rail with that address, one of its own. An emulated one has no device to be
// bound to.
[[nodiscard]] RailInterface rail_of(const NetworkInterface& interface, std::string address);

// An address in the rail's network, this end's or a peer's, as this host's sockets take it: a
// link-local IPv6 one gets the rail's interface as its scope.
[[nodiscard]] SocketAddress address_on(const RailInterface& rail, SocketAddress address);
// The same of a numeric text without a scope.
[[nodiscard]] Result<SocketAddress> address_on(const RailInterface& rail,
                                               std::string_view host,
                                               uint16_t port);

// What is wrong with the rail's interface as the kernel has it, and what to do; "": nothing.
[[nodiscard]] std::string interface_trouble(const RailInterface& rail);

// Whether another interface of this network namespace than `interface_name` has that address. The
// kernel keeps packets to it inside the host: a socket that is bound to an interface would send
// them out of it, where nobody hears them.
[[nodiscard]] bool is_on_another_interface(const SocketAddress& address,
                                           const std::string& interface_name);
// For the error of a connection to `to`, an address of another host, that could not be made: where
// this host has that address too, that, and what to do. "": it has not, or the rail is bound to no
// interface, as where ranks of one host stand for several.
[[nodiscard]] std::string address_is_ours_text(const RailInterface& from, const SocketAddress& to);

// A socket on the rail's interface with a connect under way to `to`; not bound to the interface
// where `to` is on another one of this host. Errors: this end cannot be used at all.
struct Dialled {
  Fd fd;
  int connect_errno = 0;  // 0: connected or under way
};
[[nodiscard]] Result<Dialled> dial(const RailInterface& from, const SocketAddress& to);

[[nodiscard]] bool is_bound_to_interface(int fd);

// IP's TOS byte, or IPv6's traffic class, of what the socket sends; nothing where it is negative.
void set_traffic_class(int fd, int32_t traffic_class);
// For an accepted connection: answers leave through the rail's interface too, also where several
// interfaces have one subnet. Left alone when the connection did not come in there, or came from
// another interface of this host.
void bind_accepted(int fd, const RailInterface& rail);
// No delay, keep-alive that notices a dead rail within about 11 s while nothing is in flight.
void tune_data_socket(int fd);

}  // namespace ho
