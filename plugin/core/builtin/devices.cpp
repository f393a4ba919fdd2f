#include "core/builtin/devices.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "core/builtin/records.hpp"
#include "topo/address.hpp"
#include "topo/discover.hpp"

namespace ho::plugin {
namespace {

// NCCL's search for channels finds none over a slower device, however slow the link really is.
constexpr uint64_t kMinMbit = 1000;
// What NCCL itself takes for an interface that does not tell its speed.
constexpr uint64_t kUnknownMbit = 10000;
constexpr uint64_t kMaxMbit = 4'000'000;
constexpr int32_t kMaxComms = 65536;

// NCCL needs the same number in all processes of a host and another one for each device.
uint64_t guid_of(const std::string& host_id, const std::string& name) {
  return Hash().add(host_id).add(name).value();
}

// How gladly an address is taken, the least first. IPv4 where there is one, so that both ends of a
// connection choose the same; a link-local one last, which reaches no further than one network.
int preference(const InterfaceAddress& address) {
  return (address.ipv6 ? 1 : 0) + (address.link_local ? 1 : 0);
}

// "": none.
std::string address_of(const NetworkInterface& interface) {
  std::optional<InterfaceAddress> chosen;
  for (const std::string& text : interface.addresses) {
    auto address = parse_interface_address(text);
    if (address && (!chosen || preference(*address) < preference(*chosen))) {
      chosen = std::move(address);
    }
  }
  return chosen ? chosen->host : "";
}

std::string pci_path_of(const NetworkInterface& interface, const std::string& sysfs) {
  if (interface.pci.empty()) {
    return {};
  }
  std::error_code error;
  const auto path = std::filesystem::canonical(sysfs + "/bus/pci/devices/" + interface.pci, error);
  return error ? std::string() : path.string();
}

}  // namespace

BuiltinDevice make_device(const std::string& name,
                          const std::string& host_id,
                          const std::string& address,
                          const std::string& interface_name) {
  BuiltinDevice device;
  device.properties.name = name;
  device.properties.address = address;
  device.properties.guid = guid_of(host_id, name);
  device.properties.memory_kinds = kHostMemory;
  device.properties.speed_mbps = static_cast<int32_t>(kUnknownMbit);
  device.properties.max_comms = kMaxComms;
  device.properties.max_recvs = static_cast<int32_t>(kMaxReceives);
  device.properties.max_p2p_bytes = kMaxMessageBytes;
  device.properties.max_collective_bytes = kMaxMessageBytes;
  device.rail.name = interface_name;
  device.rail.address = address;
  return device;
}

Result<SocketAddress> own_address(const BuiltinDevice& device) {
  return address_on(device.rail, device.rail.address, 0);
}

bool on_loopback(const BuiltinDevice& device) {
  const auto address = own_address(device);
  return address.ok() && address->is_loopback();
}

BuiltinDevices builtin_devices(const Topology& topology,
                               const InterfaceFilter& filter,
                               const std::string& sysfs) {
  BuiltinDevices devices;
  const auto decisions = judge_interfaces(topology.interfaces, filter);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const NetworkInterface& interface = topology.interfaces[i];
    const std::string address = decisions[i].taken ? address_of(interface) : std::string();
    if (address.empty()) {
      devices.left_out += fmt::format(
          "{}{} {}",
          devices.left_out.empty() ? "" : "; ",
          interface.name,
          decisions[i].taken ? "dropped: none of its addresses is numeric" : decisions[i].reason);
      continue;
    }
    BuiltinDevice device = make_device(interface.name, topology.host_id, address, "");
    device.rail = rail_of(interface, address);
    if (interface.loopback) {
      device.rail.name.clear();
    }
    device.properties.pci_path = pci_path_of(interface, sysfs);
    const uint64_t mbit = interface.speed_mbit > 0 ? interface.speed_mbit : kUnknownMbit;
    device.properties.speed_mbps = static_cast<int32_t>(std::clamp(mbit, kMinMbit, kMaxMbit));
    device.properties.reason = decisions[i].reason;
    // A rail is the NICs of one number, and a network of its own as far as is known: NCCL then
    // keeps each of its channels on one.
    device.properties.rail_id = static_cast<int16_t>(devices.taken.size());
    device.properties.plane_id = device.properties.rail_id;
    devices.taken.push_back(std::move(device));
  }
  return devices;
}

Result<InterfaceFilter> network_filter() {
  const std::string of_nccl = env::text(env::kNcclSocketIfname);
  return env::text(env::kSocketIfname).empty() && !of_nccl.empty() ? nccl_interface_filter(of_nccl)
                                                                   : interface_filter();
}

namespace {

Result<BuiltinDevices> some_devices(const Topology& topology, const InterfaceFilter& filter) {
  BuiltinDevices devices = builtin_devices(topology, filter);
  if (!devices.taken.empty()) {
    return devices;
  }
  const bool blank = filter.text.find(' ') != std::string::npos;
  return invalid(fmt::format("no network interface can be used: {}; bring one up, or change {}{}",
                             devices.left_out.empty() ? "there is none" : devices.left_out,
                             filter.variable,
                             blank ? " (NCCL takes a blank for a part of a name)" : ""));
}

}  // namespace

Result<BuiltinDevices> discover_devices(const InterfaceFilter& filter) {
  HORING_ASSIGN(const Topology topology, discover());
  return some_devices(topology, filter);
}

Result<BuiltinDevices> discover_devices_or_live(const InterfaceFilter& filter) {
  auto topology = discover();
  if (!topology.ok()) {
    topology = discover_live();
  }
  HORING_TRY(topology.status());
  return some_devices(*topology, filter);
}

Result<BuiltinDevices> discover_devices() {
  HORING_ASSIGN(const InterfaceFilter filter, network_filter());
  return discover_devices(filter);
}

}  // namespace ho::plugin
