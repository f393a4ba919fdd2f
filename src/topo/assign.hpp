// From what all ranks found to groups, rails and NICs. Pure and deterministic: every rank computes
// it from the same infos and gets the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "group/group_map.hpp"
#include "topo/group_file.hpp"
#include "topo/rank_info.hpp"

namespace ho {

struct AssignedNic {
  std::string name;     // "rail0"; "" where the rank's host has none (one group only)
  std::string address;  // numeric, without prefix length
  std::string subnet;   // "10.1.0.0/24"; "" unknown or not shared
  uint64_t speed_mbit = 0;
  Distance distance = kUnknownDistance;  // from the rank
  uint32_t sharers = 1;                  // ranks of its group and host that use it, itself included
  friend bool operator==(const AssignedNic&, const AssignedNic&) = default;
};

struct Assignment {
  // Group ranks ascend with the global rank, except where another order puts rail r of every group
  // on one subnet, or different NICs under the first rails. As many rails as rail_choice.hpp
  // chooses.
  GroupMap map;
  // NICs that every group has: in each group, rails 0 .. ring_count - 1 use different NICs. At
  // least 1.
  uint32_t ring_count = 1;
  std::vector<AssignedNic> nic_of_rank;         // by global rank
  std::vector<std::vector<AssignedNic>> rails;  // [group][rail]: the NIC of the rank that serves it
  std::vector<uint32_t> host_of_rank;           // ranks of equal number share a host
  std::vector<std::string> host_names;          // by that number
  // By that number: the NICs as good as those in use there, and these, in natural order. For links
  // that lose their rail; a rail of a communicator with one rank on a host has no other to go to.
  std::vector<std::vector<AssignedNic>> nics_of_host;
  std::vector<std::string> warnings;
  std::vector<std::string> lost_nics;  // what the job would use and cannot (lost_nics.hpp)
};

// infos[r] is rank r's. Without a group file the groups are the hosts. `rails` as in
// choose_rail_count(): 0 chooses.
[[nodiscard]] Result<Assignment> assign_rails(std::span<const RankInfo> infos,
                                              const std::optional<GroupFile>& group_file,
                                              uint32_t rails);

// "rank 3 (node1): group 0, rail 3, rail3 10.4.0.1 (same NUMA node, its own)"
[[nodiscard]] std::string explain_rank(const Assignment& assignment, GlobalRank rank);
[[nodiscard]] std::string distance_text(Distance distance);

}  // namespace ho
