// Spreads ranks over NICs: as evenly as can be first, then as near as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ho {

// A rank may not have this NIC; stronger than any gain in evenness.
inline constexpr int64_t kForbiddenNic = int64_t{1} << 50U;
inline constexpr int64_t kMaxNicCost = int64_t{1} << 18U;

// costs[rank][nic], each at most kMaxNicCost or kForbiddenNic; every row of equal, non-zero
// length. Result: the NIC of each rank. No NIC has two ranks more than another (where that is
// allowed); among such assignments the sum of costs is the least; of equals, earlier ranks get
// earlier NICs.
[[nodiscard]] std::vector<size_t> assign_evenly(const std::vector<std::vector<int64_t>>& costs);

}  // namespace ho
