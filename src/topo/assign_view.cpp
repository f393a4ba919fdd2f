// Views of an assignment: as one rank uses it, and as people read it.
#include <algorithm>

#include "topo/address.hpp"
#include "topo/assign.hpp"

namespace ho {
namespace {

AssignedNic as_rail(const RankNic& nic, const InterfaceAddress& address) {
  return {nic.name, address.host, address.subnet, nic.speed_mbit, nic.distance, 1};
}

// How badly an address serves as `wanted`: 0 is the same address, 1 the same subnet.
int badness(const RankNic& nic, const InterfaceAddress& address, const AssignedNic& wanted) {
  if (nic.name == wanted.name && address.host == wanted.address) {
    return 0;
  }
  if (!wanted.subnet.empty() && address.subnet == wanted.subnet) {
    return 1;
  }
  return address.ipv6 == (wanted.address.find(':') != std::string::npos) ? 2 : 3;
}

AssignedNic rail_on(const RankInfo& info, const AssignedNic& wanted, size_t rail) {
  AssignedNic best;
  int best_badness = 4;
  for (size_t i = 0; i < info.nics.size(); ++i) {
    // Starting at another NIC for each rail takes them in turn where none is better.
    const RankNic& nic = info.nics[(i + rail) % info.nics.size()];
    for (const std::string& text : nic.addresses) {
      const auto address = parse_interface_address(text);
      if (address && badness(nic, *address, wanted) < best_badness) {
        best_badness = badness(nic, *address, wanted);
        best = as_rail(nic, *address);
      }
    }
  }
  return best_badness == 0 ? wanted : best;
}

}  // namespace

std::vector<AssignedNic> rails_on_rank(const Assignment& assignment,
                                       GlobalRank rank,
                                       const RankInfo& info) {
  std::vector<AssignedNic> rails;
  const auto& of_group = assignment.rails[assignment.map.group_of(rank).at()];
  for (size_t rail = 0; rail < of_group.size(); ++rail) {
    rails.push_back(rail_on(info, of_group[rail], rail));
  }
  return rails;
}

std::string distance_text(Distance distance) {
  if (distance < kSameHostBridge) {
    return "same PCIe switch";
  }
  if (distance < kSameNumaNode) {
    return "same PCIe host bridge";
  }
  if (distance < kUnknownDistance) {
    return "same NUMA node";
  }
  return distance < kOtherNumaNode ? "distance unknown" : "other NUMA node";
}

std::string explain_rank(const Assignment& assignment, GlobalRank rank) {
  const AssignedNic& nic = assignment.nic_of_rank[rank.at()];
  const auto rail = assignment.map.rail_of(rank);
  std::string text = "rank " + std::to_string(rank.value()) + " (" +
                     assignment.host_names[assignment.host_of_rank[rank.at()]] + "): group " +
                     std::to_string(assignment.map.group_of(rank).value()) + ", " +
                     (rail ? "rail " + std::to_string(rail->value()) : "no rail of its own") + ", ";
  if (nic.name.empty()) {
    return text + "no NIC";
  }
  return text + nic.name + " " + nic.address + " (" + distance_text(nic.distance) + ", " +
         (nic.sharers == 1 ? "its own" : "shared by " + std::to_string(nic.sharers) + " ranks") +
         ")";
}

}  // namespace ho
