// What the builtin network says about this host's interfaces.
#include <set>

#include "catch.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/records.hpp"

namespace ho::plugin {
namespace {

NetworkInterface interface_of(const std::string& name, const std::string& address) {
  NetworkInterface interface;
  interface.name = name;
  interface.operstate = "up";
  interface.addresses = {address};
  return interface;
}

Topology two_and_loopback() {
  Topology topology;
  topology.host_id = "host one";
  topology.interfaces = {interface_of("eth0", "10.1.0.1/24"),
                         interface_of("eth1", "fd00::1/64"),
                         interface_of("lo", "127.0.0.1/8")};
  topology.interfaces[0].speed_mbit = 100;
  topology.interfaces[1].speed_mbit = 200000;
  topology.interfaces[1].addresses.emplace_back("10.2.0.1/24");
  topology.interfaces[2].loopback = true;
  return topology;
}

InterfaceFilter filter_of(const std::string& text) {
  const auto filter = parse_interface_filter(text);
  REQUIRE(filter.ok());
  return *filter;
}

TEST_CASE("devices: usable interfaces with all that NCCL asks for") {
  const auto devices = builtin_devices(two_and_loopback(), filter_of(""), false);
  REQUIRE(devices.size() == 2);
  const DeviceProperties& first = devices[0].properties;
  REQUIRE(first.name == "eth0");
  REQUIRE(first.pci_path.empty());
  REQUIRE(first.speed_mbps == 1000);  // less is said to be that
  REQUIRE(first.memory_kinds == kHostMemory);
  REQUIRE(first.max_recvs == 8);
  REQUIRE(first.max_comms == 65536);
  REQUIRE(first.max_p2p_bytes == kMostMessageBytes);
  REQUIRE(first.max_collective_bytes == kMostMessageBytes);
  REQUIRE(devices[0].rail.name == "eth0");
  REQUIRE(devices[0].rail.address == "10.1.0.1");
  REQUIRE(devices[1].properties.speed_mbps == 200000);
  REQUIRE(devices[1].rail.address == "10.2.0.1");  // IPv4 where there is one
  REQUIRE(first.guid != devices[1].properties.guid);
}

TEST_CASE("devices: numbers are the same again, and others on another host") {
  Topology topology = two_and_loopback();
  const auto once = builtin_devices(topology, filter_of(""), false);
  const auto again = builtin_devices(topology, filter_of(""), false);
  REQUIRE(once[0].properties.guid == again[0].properties.guid);
  topology.host_id = "host two";
  const auto elsewhere = builtin_devices(topology, filter_of(""), false);
  REQUIRE(once[0].properties.guid != elsewhere[0].properties.guid);
}

TEST_CASE("devices: the filter chooses") {
  const auto listed = builtin_devices(two_and_loopback(), filter_of("=eth1"), false);
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].properties.name == "eth1");
  const auto loopback = builtin_devices(two_and_loopback(), filter_of("lo"), false);
  REQUIRE(loopback.size() == 1);
  REQUIRE(loopback[0].rail.name.empty());  // not bound to it
}

TEST_CASE("devices: emulated rails are bound to no interface") {
  Topology topology;
  topology.interfaces = {interface_of("rail0", "127.1.0.1/16")};
  const auto devices = builtin_devices(topology, filter_of(""), true);
  REQUIRE(devices.size() == 1);
  REQUIRE(devices[0].rail.name.empty());
  REQUIRE(devices[0].properties.speed_mbps >= 1000);
}

TEST_CASE("devices: of this host") {
  const auto devices = discover_devices();
  if (!devices.ok()) {  // a machine may have none
    REQUIRE(devices.status().code() == StatusCode::kInvalidArgument);
    return;
  }
  std::set<std::string> names;
  std::set<uint64_t> guids;
  for (const BuiltinDevice& device : *devices) {
    names.insert(device.properties.name);
    guids.insert(device.properties.guid);
    REQUIRE(device.properties.speed_mbps >= 1000);
    REQUIRE_FALSE(device.rail.address.empty());
  }
  REQUIRE(names.size() == devices->size());
  REQUIRE(guids.size() == devices->size());
}

}  // namespace
}  // namespace ho::plugin
