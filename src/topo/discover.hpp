// Where a Topology comes from: this machine, an hwloc XML file, or a short description.
//
// Synthetic descriptions: an hwloc synthetic string for packages, NUMA nodes, cores and CPUs, then
// any number of items, separated by semicolons:
//
//   pack:2 numa:1 core:8 pu:1; host=node1; nic=eth0,numa=0,speed=100000,addr=10.1.0.1/24;
//   nic=eth1,numa=1,switch=3,addr=10.2.0.1/24,addr=fd00::1/64,state=down; gpu=cuda0,numa=1,switch=3
//
// nic:  numa (default unknown), speed in Mbit/s (unknown), addr (any number), switch (a number;
// what
//       has the same number hangs under one PCIe switch), state (up), pci (none)
// gpu:  numa, switch, pci
// host: the host's name and identity
//
// XML files are those of `lstopo --of xml FILE`. What hwloc does not store about a network
// interface may be added to its OSDev object: <info name="Speed" value="100000"/> (Mbit/s), <info
// name="Operstate" value="down"/> (default unknown, which counts as up) and any number of <info
// name="IPAddress" value="10.1.0.1/24"/>. NCCL's own files (nccl_topology.hpp) are told by their
// root and read as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// Where the kernel shows itself; another place in tests.
struct SystemRoots {
  std::string sysfs = "/sys";
  std::string proc = "/proc";
};

[[nodiscard]] Result<Topology> discover_live(const SystemRoots& roots = {});
// Only what the file has; nothing of this machine.
[[nodiscard]] Result<Topology> discover_xml(const std::string& path);
[[nodiscard]] Result<Topology> parse_topology_xml(std::string_view xml, const std::string& path);
[[nodiscard]] Result<Topology> discover_synthetic(const std::string& description);

// What a rank uses: the live topology, or with HORING_TOPO_FILE that file's devices with this
// host's identity and the live addresses of interfaces of the same name. Emulated rails
// (emulation.hpp) take the place of live interfaces.
[[nodiscard]] Result<Topology> discover(const SystemRoots& roots = {});
// The second half of discover() with a file: interfaces that are not in `live`, neither by name nor
// by PCI name, become "absent".
void adopt_live(std::span<const NetworkInterface> live, Topology& topology);

}  // namespace ho
