// What the builtin network says about this host's interfaces.
#include <net/if.h>

#include <cstdlib>
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

TEST_CASE("devices: usable interfaces are offered with all that NCCL asks for") {
  const auto devices = builtin_devices(two_and_loopback(), filter_of("")).taken;
  REQUIRE(devices.size() == 2);
  const DeviceProperties& first = devices[0].properties;
  REQUIRE(first.name == "eth0");
  REQUIRE(first.pci_path.empty());
  REQUIRE(first.speed_mbps == 1000);  // less is said to be that
  REQUIRE(first.memory_kinds == kHostMemory);
  REQUIRE(first.max_recvs == 8);
  REQUIRE(first.max_comms == 65536);
  REQUIRE(first.max_p2p_bytes == kMaxMessageBytes);
  REQUIRE(first.max_collective_bytes == kMaxMessageBytes);
  REQUIRE(devices[0].rail.name == "eth0");
  REQUIRE(devices[0].rail.address == "10.1.0.1");
  REQUIRE(devices[1].properties.speed_mbps == 200000);
  REQUIRE(devices[1].rail.address == "10.2.0.1");  // IPv4 where there is one
  REQUIRE(first.guid != devices[1].properties.guid);
}

TEST_CASE("devices: rail and plane are the number among those that are taken") {
  const auto both = builtin_devices(two_and_loopback(), filter_of("")).taken;
  const auto second = builtin_devices(two_and_loopback(), filter_of("=eth1")).taken;
  for (const auto& [device, number] : {std::pair(both[0], 0), {both[1], 1}, {second[0], 0}}) {
    CAPTURE(device.properties.name);
    CHECK(device.properties.rail_id == number);
    CHECK(device.properties.plane_id == number);
  }
}

TEST_CASE("devices: numbers are the same again, and others on another host") {
  Topology topology = two_and_loopback();
  const auto once = builtin_devices(topology, filter_of("")).taken;
  const auto again = builtin_devices(topology, filter_of("")).taken;
  REQUIRE(once[0].properties.guid == again[0].properties.guid);
  topology.host_id = "host two";
  const auto elsewhere = builtin_devices(topology, filter_of("")).taken;
  REQUIRE(once[0].properties.guid != elsewhere[0].properties.guid);
}

TEST_CASE("devices: the filter chooses among the interfaces") {
  const auto listed = builtin_devices(two_and_loopback(), filter_of("=eth1")).taken;
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].properties.name == "eth1");
  const auto loopback = builtin_devices(two_and_loopback(), filter_of("lo")).taken;
  REQUIRE(loopback.size() == 1);
  REQUIRE(loopback[0].rail.name.empty());  // not bound to it
}

TEST_CASE("devices: emulated rails are bound to no interface") {
  Topology topology;
  topology.interfaces = {interface_of("rail0", "127.1.0.1/16")};
  topology.interfaces[0].emulated = true;
  topology.interfaces[0].pace = RailPace{.mbit = 200, .slot = 3, .memory_fd = 7};
  const auto devices = builtin_devices(topology, filter_of("")).taken;
  REQUIRE(devices.size() == 1);
  REQUIRE(devices[0].rail.name.empty());
  REQUIRE(devices[0].rail.emulated);
  REQUIRE(devices[0].rail.pace->slot == 3);
  REQUIRE(devices[0].properties.speed_mbps >= 1000);
}

TEST_CASE("devices: each says why it is taken or not") {
  const auto devices = builtin_devices(two_and_loopback(), filter_of("=eth1"));
  REQUIRE(devices.taken[0].properties.reason.find("HORING_SOCKET_IFNAME==eth1 lists it") !=
          std::string::npos);
  REQUIRE(devices.left_out.find("eth0 dropped: HORING_SOCKET_IFNAME==eth1 does not list it; lo ") ==
          0);
}

TEST_CASE("devices: a link-local address serves where there is no other") {
  Topology topology;
  topology.interfaces = {interface_of("eth0", "fe80::1/64"), interface_of("eth1", "fe80::2/64")};
  topology.interfaces[1].addresses.emplace_back("fd00::2/64");
  const auto devices = builtin_devices(topology, filter_of("eth"));
  REQUIRE(devices.taken.size() == 2);
  REQUIRE(devices.taken[0].rail.address == "fe80::1");
  REQUIRE(devices.taken[1].rail.address == "fd00::2");
}

TEST_CASE("devices: a link-local address has its device as scope") {
  BuiltinDevice device = make_device("lo", "a host", "fe80::1", "lo");
  REQUIRE(own_address(device)->scope() == ::if_nametoindex("lo"));
  REQUIRE_FALSE(on_loopback(device));
  device.rail.address = "fd00::1";
  REQUIRE(own_address(device)->scope() == 0);
  device.rail.address = "127.0.0.1";
  REQUIRE(on_loopback(device));
}

// Of both variables, as they are while this object lives.
class IfnameSetting {
 public:
  IfnameSetting(const char* own, const char* of_nccl) {
    set("HORING_SOCKET_IFNAME", own);
    set("NCCL_SOCKET_IFNAME", of_nccl);
  }
  IfnameSetting(const IfnameSetting&) = delete;
  IfnameSetting& operator=(const IfnameSetting&) = delete;
  ~IfnameSetting() {
    set("HORING_SOCKET_IFNAME", nullptr);
    set("NCCL_SOCKET_IFNAME", nullptr);
  }

 private:
  static void set(const char* name, const char* value) {
    REQUIRE((value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1)) == 0);
  }
};

TEST_CASE("devices: NCCL's filter counts where ours is not set") {
  const auto used = [](const char* own, const char* of_nccl) {
    const IfnameSetting setting(own, of_nccl);
    const auto filter = network_filter();
    REQUIRE(filter.ok());
    return filter->variable + "=" + filter->text;
  };
  REQUIRE(used(nullptr, nullptr) == "HORING_SOCKET_IFNAME=");
  REQUIRE(used(nullptr, "eth1") == "NCCL_SOCKET_IFNAME=eth1");
  REQUIRE(used("", "^lo") == "NCCL_SOCKET_IFNAME=^lo");
  REQUIRE(used("=eth0", "eth1") == "HORING_SOCKET_IFNAME==eth0");
  REQUIRE(used(nullptr, "eth 1") == "NCCL_SOCKET_IFNAME=eth 1");  // as NCCL: a name with a blank
  {
    const IfnameSetting none(nullptr, "=no such");
    REQUIRE(discover_devices().status().message().find("NCCL takes a blank for a part of a name") !=
            std::string::npos);
  }
  const IfnameSetting odd("eth 1", nullptr);
  REQUIRE(network_filter().status().message().find("HORING_SOCKET_IFNAME=eth 1: ") == 0);
}

TEST_CASE("devices: NCCL's filter is followed on this host") {
  const IfnameSetting setting(nullptr, "=lo");
  const auto devices = discover_devices();
  REQUIRE(devices.ok());
  REQUIRE(devices->taken.size() == 1);
  REQUIRE(devices->taken[0].properties.name == "lo");
  REQUIRE(devices->taken[0].properties.reason.find("NCCL_SOCKET_IFNAME==lo lists it") !=
          std::string::npos);
}

TEST_CASE("devices: those of this host have names and ids of their own") {
  const auto devices = discover_devices();
  if (!devices.ok()) {  // a machine may have none
    REQUIRE(devices.status().code() == StatusCode::kInvalidArgument);
    return;
  }
  std::set<std::string> names;
  std::set<uint64_t> guids;
  for (const BuiltinDevice& device : devices->taken) {
    names.insert(device.properties.name);
    guids.insert(device.properties.guid);
    REQUIRE(device.properties.speed_mbps >= 1000);
    REQUIRE_FALSE(device.rail.address.empty());
  }
  REQUIRE(names.size() == devices->taken.size());
  REQUIRE(guids.size() == devices->taken.size());
}

}  // namespace
}  // namespace ho::plugin
