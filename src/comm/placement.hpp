// Where the ranks of one communicator are: groups, hosts and the NIC of each rank. All ranks
// compute the same placement from the infos that they exchanged; a split communicator inherits its
// part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/job_levels.hpp"
#include "connect/rail_interface.hpp"
#include "group/group_map.hpp"

namespace ho {

struct Placement {
  GroupMap map;
  std::vector<std::string> host_id = {};    // by rank
  std::vector<std::string> host_name = {};  // by rank
  // By rank: its own; of those on other hosts name and address.
  std::vector<RailInterface> nic = {};
  std::vector<uint64_t> nic_mbit = {};  // by rank: that NIC's speed, 0: unknown
  uint32_t wanted_rails = 0;            // HORING_RAILS; 0: chosen
  std::vector<std::string> warnings = {};
  std::vector<std::string> lost_nics = {};  // the job would use them and cannot: topo/lost_nics.hpp

  std::optional<JobLevels> levels = {};  // where a file names them

  bool device = false;  // some rank of the job may have device memory in calls

  // Of this process's host: all that a link may go over when it loses its rail. Also in parts.
  std::vector<RailInterface> nics_here = {};

  // The interfaces that `rank` uses for each rail: those of its group's rail ranks; its own where a
  // rail's rank is on another host (groups may span hosts under one switch).
  [[nodiscard]] std::vector<RailInterface> rails_of(GlobalRank rank) const;
  // Those of this process's host that are not among them.
  [[nodiscard]] std::vector<RailInterface> spares_beside(
      const std::vector<RailInterface>& rails) const;
  // Rings of multi_ring: the distinct NICs that every group has among its rails.
  [[nodiscard]] uint32_t ring_count() const;
  [[nodiscard]] bool same_host(GlobalRank a, GlobalRank b) const {
    return host_id[a.at()] == host_id[b.at()];
  }
  [[nodiscard]] std::vector<GlobalRank> ranks_on_host_of(GlobalRank rank) const;
  // The ranks `members` (of this placement, in their new order) as a placement of their own, with
  // an order inside the groups and a number of rails that suit the NICs they have.
  [[nodiscard]] Result<Placement> part(const std::vector<GlobalRank>& members) const;
};

}  // namespace ho
