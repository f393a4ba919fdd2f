// Which interfaces may be rails, and why: the operator's list in NCCL's syntax, then what cannot
// carry data.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// HORING_SOCKET_IFNAME. "eth,ib": names that begin so. "=eth0,eth1": these names. "^docker,lo": no
// name that begins so. "^=eth3": not these names. Empty: the default, which is every interface with
// an address but those that stay inside this host: bridges without a physical port, tunnels, and
// by their names docker*, br-<id>, cni*, veth* and the like. Where there is none: interfaces with a
// link-local IPv6 address, then those bridges and tunnels, then loopback.
struct InterfaceFilter {
  bool is_default = true;
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;
  std::string text;
  std::string variable = "HORING_SOCKET_IFNAME";  // that the filter is from, for messages
};
[[nodiscard]] Result<InterfaceFilter> parse_interface_filter(
    std::string_view text, std::string_view variable = "HORING_SOCKET_IFNAME");
// NCCL_SOCKET_IFNAME as NCCL reads it, which refuses nothing: a blank is part of a name, ":7"
// behind a name is a port that it does not use here, entries without a name and those after the
// 16th do not count, a list without entries has every name in it, and a value of one character is
// as none.
[[nodiscard]] InterfaceFilter nccl_interface_filter(std::string_view text);
// From the environment.
[[nodiscard]] Result<InterfaceFilter> interface_filter();

struct InterfaceDecision {
  bool taken = false;
  std::string reason;  // "taken: up, 10.1.0.1/24", "dropped: no address"
};
// One decision per interface, in the same order. Pure.
[[nodiscard]] std::vector<InterfaceDecision> judge_interfaces(
    std::span<const NetworkInterface> interfaces, const InterfaceFilter& filter);

// Of a decision's reason: the filter permits the interface, but it is not up.
[[nodiscard]] bool dropped_for_state(std::string_view reason);
// Of such an interface: it has an address, so it is meant to work. Unused ports have none;
// bridges inside one host are down while nothing is plugged in.
[[nodiscard]] bool was_configured(std::string_view reason);

}  // namespace ho
