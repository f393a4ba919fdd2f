// The network devices that the builtin network offers: this host's usable interfaces.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/driver/device_properties.hpp"
#include "topo/filter.hpp"
#include "topo/topology.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::plugin {

struct BuiltinDevice {
  DeviceProperties properties;
  RailInterface rail;  // where its connections begin and end
};

// What NCCL is told about one device with that numeric address. interface_name: empty where
// connections are not to be bound to an interface (loopback).
[[nodiscard]] BuiltinDevice make_device(const std::string& name,
                                        const std::string& host_id,
                                        const std::string& address,
                                        const std::string& interface_name);

// This end of the device's connections, with port 0.
[[nodiscard]] Result<SocketAddress> own_address(const BuiltinDevice& device);
[[nodiscard]] bool on_loopback(const BuiltinDevice& device);

struct BuiltinDevices {
  std::vector<BuiltinDevice> taken;
  std::string left_out;  // "docker0 dropped: ...; eth2 dropped: operstate down"
};

// Those that the filter takes, in the topology's order. Reads nothing but the links of PCI devices
// under sysfs.
[[nodiscard]] BuiltinDevices builtin_devices(const Topology& topology,
                                             const InterfaceFilter& filter,
                                             const std::string& sysfs = "/sys");
// HORING_SOCKET_IFNAME; NCCL_SOCKET_IFNAME, as NCCL reads it, where that is not set.
[[nodiscard]] Result<InterfaceFilter> network_filter();
// Of this host. An error where the filter takes none.
[[nodiscard]] Result<BuiltinDevices> discover_devices(const InterfaceFilter& filter);
// The same; this host's interfaces where what the environment has of others cannot be read.
[[nodiscard]] Result<BuiltinDevices> discover_devices_or_live(const InterfaceFilter& filter);
// By network_filter().
[[nodiscard]] Result<BuiltinDevices> discover_devices();

}  // namespace ho::plugin
