// What a host has, as a value: no hwloc or kernel handle in it. Sources fill it in (discover.hpp:
// live, hwloc XML, synthetic); ranks exchange it as a blob (blob.hpp) and assign groups and rails
// from what all of them found (assign.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ho {

struct NumaNode {
  uint32_t os_index = 0;
  uint64_t memory_bytes = 0;
  std::vector<uint32_t> cpus;  // logical CPU numbers of the operating system
};

struct GpuDevice {
  std::string name;  // "cuda0", "rsmi0", or the PCI name
  std::string pci;   // "0000:3b:00.0"
  int32_t numa_node = -1;
  std::vector<std::string> pci_path;  // bridges above it, from the host bridge down
};

// How far what is sent on an interface gets, as far as the host knows.
enum class Reach : uint8_t {
  kUnknown,
  kThisHost,  // a bridge without a physical port, or a tunnel of a program
  kNetwork,   // a device, or a bridge with one
};

// Where the kernel does not shape a link, its senders keep to a rate.
struct RailPace {
  uint64_t mbit = 0;
  uint32_t slot = 0;   // of the memory in which the host's processes share the rate
  int memory_fd = -1;  // that memory, inherited; negative: the rate is this process' own
};

struct NetworkInterface {
  std::string name;
  std::string pci;         // "" for a virtual interface
  int32_t numa_node = -1;  // -1 unknown
  std::vector<std::string> pci_path;
  uint64_t speed_mbit = 0;  // 0 unknown
  std::string operstate;    // "up", "down", "unknown", "absent" (in a file, but not on this host)
  bool loopback = false;
  Reach reach = Reach::kUnknown;
  std::vector<std::string> addresses;  // numeric with prefix length: "10.1.0.1/24", "fd00::1/64"
  bool emulated = false;           // an address that stands for a rail: no interface has that name
  std::optional<RailPace> pace{};  // of what is sent on it; nothing: as fast as it goes
};

struct Topology {
  std::string source;  // "live", "xml FILE", "synthetic"
  std::string host_name;
  std::string host_id;  // equal on ranks of one host (host_identity.hpp)
  uint32_t package_count = 0;
  uint32_t core_count = 0;
  uint32_t cpu_count = 0;
  std::vector<NumaNode> numa_nodes;
  std::vector<GpuDevice> gpus;
  std::vector<NetworkInterface> interfaces;
};

}  // namespace ho
