#include "topo/rank_info.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/version.hpp"
#include "topo/blob.hpp"

namespace ho {
namespace {

size_t shared_bridges(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t shared = 0;
  while (shared < shorter && a[shared] == b[shared]) {
    ++shared;
  }
  return shared;
}

// The host bridge is the first on every path: sharing only that one means going through it.
std::optional<Distance> pci_distance(const GpuDevice& gpu, const NetworkInterface& interface) {
  const size_t shared = shared_bridges(gpu.pci_path, interface.pci_path);
  if (shared == 0) {
    return std::nullopt;
  }
  if (shared == 1) {
    return kSameHostBridge;
  }
  const size_t hops = gpu.pci_path.size() + interface.pci_path.size() - 2 * shared;
  return static_cast<Distance>(std::min<size_t>(hops, kSameHostBridge - 1));
}

const NumaNode* find_node(std::span<const NumaNode> nodes, int32_t os_index) {
  const auto found = std::ranges::find_if(
      nodes, [&](const NumaNode& node) { return static_cast<int32_t>(node.os_index) == os_index; });
  return found == nodes.end() ? nullptr : &*found;
}

// One node, or memories for the same CPUs.
bool same_location(std::span<const NumaNode> nodes, int32_t a, int32_t b) {
  const NumaNode* const first = find_node(nodes, a);
  const NumaNode* const second = find_node(nodes, b);
  if (a == b || first == nullptr || second == nullptr) {
    return a == b;
  }
  return std::ranges::any_of(first->cpus, [&](uint32_t cpu) {
    return std::ranges::find(second->cpus, cpu) != second->cpus.end();
  });
}

// Others read these in their messages and logs.
std::string printable(std::string text, size_t longest) {
  text.resize(std::min(text.size(), longest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

RankNic info_nic(const NetworkInterface& interface, Distance distance) {
  RankNic nic;
  nic.name = printable(interface.name, kMaxRankTextBytes);
  nic.speed_mbit = interface.speed_mbit;
  nic.distance = distance;
  const size_t count = std::min<size_t>(interface.addresses.size(), kMaxRankAddresses);
  nic.addresses.assign(interface.addresses.begin(),
                       interface.addresses.begin() + static_cast<std::ptrdiff_t>(count));
  return nic;
}

}  // namespace

int32_t numa_node_of(std::span<const NumaNode> nodes, std::span<const uint32_t> cpus) {
  for (const NumaNode& node : nodes) {
    const bool holds_all = std::ranges::all_of(
        cpus, [&](uint32_t cpu) { return std::ranges::find(node.cpus, cpu) != node.cpus.end(); });
    if (holds_all && !cpus.empty()) {
      return static_cast<int32_t>(node.os_index);
    }
  }
  return -1;
}

RankLocation location_of_rank(const Topology& topology,
                              std::span<const uint32_t> cpus,
                              std::optional<uint32_t> local_rank) {
  RankLocation location;
  location.numa_node = numa_node_of(topology.numa_nodes, cpus);
  if (local_rank && !topology.gpus.empty()) {
    location.gpu_pci = topology.gpus[*local_rank % topology.gpus.size()].pci;
  }
  return location;
}

Distance distance_to(const NetworkInterface& interface,
                     const Topology& topology,
                     const RankLocation& location) {
  int32_t node = location.numa_node;
  const auto gpu =
      std::ranges::find_if(topology.gpus, [&](const auto& g) { return g.pci == location.gpu_pci; });
  if (!location.gpu_pci.empty() && gpu != topology.gpus.end()) {
    if (const auto near = pci_distance(*gpu, interface)) {
      return *near;
    }
    node = gpu->numa_node >= 0 ? gpu->numa_node : node;
  }
  if (topology.numa_nodes.size() <= 1) {
    return kSameNumaNode;
  }
  if (node < 0 || interface.numa_node < 0) {
    return kUnknownDistance;
  }
  return same_location(topology.numa_nodes, node, interface.numa_node) ? kSameNumaNode
                                                                       : kOtherNumaNode;
}

RankInfo make_rank_info(const Topology& topology,
                        const InterfaceFilter& filter,
                        const RankLocation& location) {
  RankInfo info;
  info.host_id = printable(topology.host_id, kMaxRankTextBytes);
  info.host_name = printable(topology.host_name, kMaxRankTextBytes);
  const auto decisions = judge_interfaces(topology.interfaces, filter);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const NetworkInterface& interface = topology.interfaces[i];
    if (decisions[i].taken && info.nics.size() < kMaxRankNics) {
      info.nics.push_back(info_nic(interface, distance_to(interface, topology, location)));
    } else if (info.dropped.size() < kMaxRankNics) {
      const std::string reason =
          decisions[i].taken
              ? "dropped: a rank offers at most " + std::to_string(kMaxRankNics) + " interfaces"
              : decisions[i].reason;
      info.dropped.push_back(
          {printable(interface.name, kMaxRankTextBytes), printable(reason, kMaxRankTextBytes)});
    }
  }
  return info;
}

std::vector<Setting> settings_that_must_match(const std::optional<GroupFile>& group_file) {
  std::vector<Setting> settings;
  settings.push_back({"wire version", std::to_string(kWireVersion)});
  for (const env::Variable& variable : env::all()) {
    if (variable.must_match) {
      settings.push_back(
          {std::string(variable.name), printable(env::compared_text(variable), kMaxRankTextBytes)});
    }
  }
  settings.push_back({std::string(env::kGroupFile.name),
                      group_file ? "groups " + group_file->digest() : "no group file"});
  return settings;
}

}  // namespace ho
