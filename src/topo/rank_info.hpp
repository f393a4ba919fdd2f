// What one rank sends the others of itself before groups and rails are assigned: no more than
// the assignment needs. Distances are worked out by the rank, which has its own topology.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "topo/filter.hpp"
#include "topo/group_file.hpp"
#include "topo/topology.hpp"

namespace ho {

// From a rank's GPU or CPUs to a NIC; smaller is nearer. Below kSameHostBridge: hops over bridges
// of one PCIe switch.
using Distance = uint8_t;
inline constexpr Distance kSameHostBridge = 10;
inline constexpr Distance kSameNumaNode = 20;
inline constexpr Distance kUnknownDistance = 25;
inline constexpr Distance kOtherNumaNode = 30;

struct RankNic {
  std::string name;
  uint64_t speed_mbit = 0;
  Distance distance = kUnknownDistance;
  std::vector<std::string> addresses;  // at least one, with prefix length
  friend bool operator==(const RankNic&, const RankNic&) = default;
};

struct DroppedNic {
  std::string name;
  std::string reason;
  friend bool operator==(const DroppedNic&, const DroppedNic&) = default;
};

// Something that all ranks must have equal.
struct Setting {
  std::string name;
  std::string value;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// The device whose memory a rank's calls may have.
struct RankDevice {
  std::string uuid;  // differs between slices of one GPU
  std::string pci;   // "0000:3b:00.0"
  friend bool operator==(const RankDevice&, const RankDevice&) = default;
};

struct RankInfo {
  std::string host_id;
  std::string host_name;
  std::vector<RankNic> nics;        // usable, in natural order of their names
  std::vector<DroppedNic> dropped;  // for messages
  std::vector<Setting> settings;
  // Among all ranks that were started on its host, not only those of one communicator.
  std::optional<uint32_t> local_rank;
  std::optional<RankDevice> device;  // nothing: its calls have none
  friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

// Where a rank runs.
struct RankLocation {
  int32_t numa_node = -1;  // -1: its CPUs are on several nodes
  std::string gpu_pci;     // "" for none
};

// The NUMA node that holds all of `cpus`, or -1.
[[nodiscard]] int32_t numa_node_of(std::span<const NumaNode> nodes, std::span<const uint32_t> cpus);
// The CPUs that this process may use give the NUMA node; with a local rank and at least one GPU,
// GPU number local_rank (modulo their number) is the rank's.
[[nodiscard]] RankLocation location_of_rank(const Topology& topology,
                                            std::span<const uint32_t> cpus,
                                            std::optional<uint32_t> local_rank);
[[nodiscard]] Distance distance_to(const NetworkInterface& interface,
                                   const Topology& topology,
                                   const RankLocation& location);
// Pure. Settings are left empty.
[[nodiscard]] RankInfo make_rank_info(const Topology& topology,
                                      const InterfaceFilter& filter,
                                      const RankLocation& location);
// Every variable that must agree, the wire version and the contents of the group file.
[[nodiscard]] std::vector<Setting> settings_that_must_match(
    const std::optional<GroupFile>& group_file);

}  // namespace ho
