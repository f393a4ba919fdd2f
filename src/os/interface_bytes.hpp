// What the kernel has counted on each interface of this process's network namespace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ho {

struct InterfaceBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
  friend bool operator==(const InterfaceBytes&, const InterfaceBytes&) = default;
};

// By name; empty: it is not to be had here.
[[nodiscard]] std::map<std::string, InterfaceBytes> interface_bytes();
// Of /proc/net/dev's text. Pure.
[[nodiscard]] std::map<std::string, InterfaceBytes> parse_interface_bytes(std::string_view text);

}  // namespace ho
