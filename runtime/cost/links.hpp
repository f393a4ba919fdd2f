// Seconds of one collective, by the links it uses. Pure.
//
// Three kinds: intra is a group's own, over its links at B' per rank; inter joins the ranks that
// own the same part in every group, m of them at once over the group's NICs; world joins all ranks.
// A group has k NICs of B each. An inter collective has min(k/m, 1) of a NIC per rank. A world
// collective as a flat ring crosses each group boundary on one NIC at B; as a flat ring for every
// NIC, which is what NCCL does, on min(k, m) of them. As HO-Ring it uses as many, and the intra
// stage runs at the same time: what remains after the slower of the two is one intra block of a
// group.
//
// V bytes in all, r ranks: an all-gather or reduce-scatter takes (r-1)/r V over the rate, an
// all-reduce twice that.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost/memory.hpp"

namespace paro {

enum class WorldAlgorithm : uint8_t { kRing, kMultiRing, kHoRing };
inline constexpr std::array kWorldAlgorithmNames{
    std::string_view("ring"), std::string_view("multi_ring"), std::string_view("ho_ring")};
[[nodiscard]] constexpr std::string_view to_string(WorldAlgorithm algorithm) {
  return kWorldAlgorithmNames.at(static_cast<size_t>(algorithm));
}

struct Links {
  double intra_bytes_per_s = 0;  // B', per rank
  double inter_bytes_per_s = 0;  // B, per NIC
  double nics_per_group = 1;     // k
  WorldAlgorithm world = WorldAlgorithm::kHoRing;
  // What a collective takes beside its bytes, an all-reduce too: starting it, and its latencies.
  double intra_call_s = 0;
  double inter_call_s = 0;
  double world_call_s = 0;
};

// Seconds that the bytes of an all-gather or reduce-scatter take, `bytes` in all; those of an
// all-reduce take twice as long.
[[nodiscard]] double intra_seconds(double bytes, const WorldShape& world, const Links& links);
// `bytes`: of one rank's part, in all groups the same part.
[[nodiscard]] double inter_seconds(double bytes, const WorldShape& world, const Links& links);
[[nodiscard]] double world_seconds(double bytes, const WorldShape& world, const Links& links);

// Whether flat rings, one or several, are slower inside groups than between them.
[[nodiscard]] bool rings_wait_inside(const WorldShape& world, const Links& links);

}  // namespace paro
