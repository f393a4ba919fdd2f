// How many rails a job uses, and the order in which the ranks of a group serve them.
//
// A NIC shared by several rails gains nothing: their flows meet in one queue, delay each other and
// the rings wait for the slowest. So as many rails are used as carry the most together, and of
// equals the fewest. That is one per NIC that every group has, more only where a NIC is faster than
// one rank can drive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ho {

// What one rail, driven by one thread, is taken to carry: sums and copies included, about what a
// core moves through a socket and through shared memory at the same time.
inline constexpr uint64_t kRailMbit = 10000;

struct RailNic {
  size_t nic = 0;           // ranks of one group with equal numbers share a NIC
  uint64_t speed_mbit = 0;  // 0: unknown, counted as kRailMbit
};

// Positions of `nics`: the first rank of each NIC, then the second of each, and so on. The order
// stays as it is where NICs were dealt out in turn.
[[nodiscard]] std::vector<size_t> deal_nics(const std::vector<RailNic>& nics);

// groups[g][k]: the NIC of the k-th rank of group g in the order in which they serve rails. At
// least one group, none empty. `wanted` rails, or as many as there can be, if it is not 0.
[[nodiscard]] uint32_t choose_rail_count(const std::vector<std::vector<RailNic>>& groups,
                                         uint32_t wanted);

}  // namespace ho
