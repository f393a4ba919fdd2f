// Numeric interface addresses: "10.1.0.1/24", "fd00::1/64".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ho {

struct InterfaceAddress {
  std::string host;    // numeric, without the prefix length
  std::string subnet;  // "10.1.0.0/24"; "" where the prefix names no shared network (/31, /32, ...)
  bool ipv6 = false;
  bool loopback = false;
  // IPv6 that means nothing without an interface, which each host has its own number for. Its
  // subnet is "": every interface has the same.
  bool link_local = false;
};

// Nothing for text that is no numeric address, or whose prefix length is out of range. Without a
// prefix length the subnet is unknown ("").
[[nodiscard]] std::optional<InterfaceAddress> parse_interface_address(std::string_view text);

// "rail2" before "rail10": digits compare as numbers.
[[nodiscard]] bool natural_less(std::string_view left, std::string_view right);

}  // namespace ho
