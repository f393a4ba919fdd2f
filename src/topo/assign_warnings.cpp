#include "topo/assign_warnings.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ho {
namespace {

constexpr uint64_t kSlowerFactor = 4;

size_t host_of(const Assignment& assignment, size_t group, size_t rail) {
  const GlobalRank rank = assignment.map.rail_rank(GroupIndex(static_cast<uint32_t>(group)),
                                                   RailIndex(static_cast<uint32_t>(rail)));
  return assignment.host_of_rank[rank.at()];
}

std::string location(const Assignment& assignment, size_t group, size_t rail) {
  const AssignedNic& nic = assignment.rails[group][rail];
  return assignment.host_names[host_of(assignment, group, rail)] + " has " + nic.name + " " +
         nic.address + " (" + (nic.subnet.empty() ? "no subnet" : nic.subnet) + ")";
}

size_t smallest_group(const GroupMap& map) {
  uint32_t smallest = 0;
  for (uint32_t group = 1; group < map.group_count(); ++group) {
    smallest =
        map.group_size(GroupIndex(group)) < map.group_size(GroupIndex(smallest)) ? group : smallest;
  }
  return smallest;
}

// What is sent to such an address never leaves the host. Hosts of one name may be one machine.
bool warn_of_one_address(const Assignment& assignment,
                         size_t rail,
                         std::vector<std::string>& warnings) {
  std::map<std::string, size_t> group_with;
  for (size_t group = 0; group < assignment.rails.size(); ++group) {
    const AssignedNic& nic = assignment.rails[group][rail];
    const size_t first = group_with.emplace(nic.address, group).first->second;
    const std::string& here = assignment.host_names[host_of(assignment, group, rail)];
    const std::string& there = assignment.host_names[host_of(assignment, first, rail)];
    if (nic.address.empty() || here == there) {
      continue;
    }
    const std::string& other = assignment.rails[first][rail].name;
    std::string warning = "rail " + std::to_string(rail) + ": ";
    warning.append(there).append(" (").append(other).append(") and ").append(here).append(" (");
    warning.append(nic.name).append(") have the same address ").append(nic.address);
    warning +=
        ", so neither can reach the other; give each its own, or leave that interface out "
        "(HORING_SOCKET_IFNAME=^";
    warning.append(nic.name).append(")");
    warnings.push_back(std::move(warning));
    return true;
  }
  return false;
}

void warn_of_subnets(const Assignment& assignment,
                     size_t rail,
                     std::vector<std::string>& warnings) {
  const size_t reference = smallest_group(assignment.map);
  const AssignedNic& first = assignment.rails[reference][rail];
  size_t differing = 0;
  std::string example;
  for (size_t group = 0; group < assignment.rails.size(); ++group) {
    const AssignedNic& nic = assignment.rails[group][rail];
    const bool families = (nic.address.find(':') != std::string::npos) !=
                          (first.address.find(':') != std::string::npos);
    const bool subnets = nic.subnet != first.subnet && !nic.subnet.empty() && !first.subnet.empty();
    if (families || subnets) {
      ++differing;
      example = example.empty() ? location(assignment, group, rail) : example;
    }
  }
  if (differing > 0) {
    warnings.push_back("rail " + std::to_string(rail) + ": " + std::to_string(differing) + " of " +
                       std::to_string(assignment.rails.size()) + " groups are on another subnet: " +
                       location(assignment, reference, rail) + ", " + example +
                       "; without a route between them the rail cannot connect. "
                       "HORING_SOCKET_IFNAME chooses interfaces");
  }
}

// Every NIC is used before one is shared, so a slow one among fast ones is used as well: warn.
void warn_of_speeds(const Assignment& assignment, std::vector<std::string>& warnings) {
  uint64_t fastest = 0;
  for (const AssignedNic& nic : assignment.nic_of_rank) {
    fastest = std::max(fastest, nic.speed_mbit);
  }
  for (size_t rank = 0; rank < assignment.nic_of_rank.size(); ++rank) {
    const AssignedNic& nic = assignment.nic_of_rank[rank];
    if (nic.speed_mbit > 0 && nic.speed_mbit * kSlowerFactor <= fastest) {
      warnings.push_back("rank " + std::to_string(rank) + " (" +
                         assignment.host_names[assignment.host_of_rank[rank]] + ") uses " +
                         nic.name + " with " + std::to_string(nic.speed_mbit) +
                         " Mbit/s where others have " + std::to_string(fastest) +
                         ", and the slowest rail sets the pace; HORING_SOCKET_IFNAME=^" + nic.name +
                         " leaves it out");
      return;
    }
  }
}

}  // namespace

std::vector<std::string> assignment_warnings(const Assignment& assignment) {
  std::vector<std::string> warnings;
  const size_t rails = assignment.rails.size() > 1 ? assignment.map.rail_count() : 0;
  for (size_t rail = 0; rail < rails; ++rail) {
    if (!warn_of_one_address(assignment, rail, warnings)) {
      warn_of_subnets(assignment, rail, warnings);
    }
  }
  warn_of_speeds(assignment, warnings);
  return warnings;
}

}  // namespace ho
