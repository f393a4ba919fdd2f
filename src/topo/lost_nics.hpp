// Network interfaces that a job would use and cannot: it runs without them, on fewer rails. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topo/assign.hpp"

namespace ho {

// A line for each, beginning with the host: "node0: rail1 dropped: operstate down; the job uses 1
// of 2 rails". An interface counts that is down and has an address, or that is down and serves
// another host under the same name; and a host counts that has fewer interfaces than most hosts,
// and fewer than ranks. Empty for one group, which needs no network.
[[nodiscard]] std::vector<std::string> lost_nics(std::span<const RankInfo> infos,
                                                 const Assignment& assignment);

}  // namespace ho
