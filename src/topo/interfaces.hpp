// The network interfaces of this process's network namespace.
//
// getifaddrs decides which exist: /sys may have been mounted in another network namespace, and then
// shows that one's interfaces, perhaps under the same names. So a sysfs entry is believed only
// where its interface index and hardware address are those that the kernel reports here.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// How the kernel names an interface in this namespace; what a sysfs entry must show to be its.
struct LinkIdentity {
  uint32_t index = 0;
  std::string hardware_address;  // "02:fc:00:00:00:01"
};

// In natural order of their names. Addresses are IPv4 and IPv6; link-local IPv6 where there is no
// other.
[[nodiscard]] Result<std::vector<NetworkInterface>> live_interfaces(
    const std::string& sysfs_root = "/sys");

// Adds speed, operstate, reach and PCI locality from SYSFS_ROOT/class/net/NAME; leaves `interface`
// as it is where there is no such entry or it belongs to another namespace. True where it was
// believed.
bool add_from_sysfs(const std::string& sysfs_root,
                    const LinkIdentity& identity,
                    NetworkInterface& interface);

}  // namespace ho
