// An assignment as people read it.
#include <string>

#include "topo/assign.hpp"

namespace ho {

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
