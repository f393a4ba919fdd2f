// A cluster as levels of links, from the ranks' own outwards, and which ranks a collective joins.
// Pure.
//
// Level 0 joins ranks; every further level joins units of the level below it: 8 ranks a node, 16
// nodes a pod, 4 pods. A rank's links inside its node are the NICs of a unit too, of the rank. So
// one rule gives the rate of every level:
//
//   a collective moves its bytes over a unit's boundary at
//     min(flows x rate, nics x rate / (oversubscription x sharers)) x share
//
// flows are the NICs that its algorithm can use, sharers the collectives of the same kind that
// other ranks of the unit run at the same time, and share, from two linear tables, is what becomes
// of a NIC's rate with messages of that size and with so many units.
//
// All ranks of a job get equal bits from equal input: only + - x / min max and linear tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace ho::cost {

// y over x, linear between its points and level beyond them; 1 without points.
class LinearTable {
 public:
  struct Point {
    double x;
    double y;
  };
  LinearTable() = default;
  explicit LinearTable(std::vector<Point> points) : points_(std::move(points)) {}
  [[nodiscard]] double at(double x) const;
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;  // x ascends
};

struct Level {
  std::string name;   // of what it joins units to: "node", "pod"
  uint32_t size = 1;  // units of the level below, or ranks, in each unit of this one
  double rate = 0;    // bytes/s of one NIC in each direction; infinite: no limit
  double nics = 1;    // of each unit that the level joins; less than 1 where units share one
  double oversubscription = 1;  // what all NICs of a unit have, over what they get together
  double latency_s = 0;         // of one message to a unit beside it
  double start_s = 0;           // of a collective that reaches this level and none above
  LinearTable share_of_bytes;   // of the rate, by the bytes of a message
  LinearTable share_of_units;   // of the rate, by the units that a collective joins
  // Whose times and shares these are (cost/networks.hpp); empty: somebody has given or measured
  // some of them.
  std::string network = {};
};

inline constexpr size_t kMaxLevels = 8;
inline constexpr uint64_t kMaxRanks = uint64_t{1} << 24U;
inline constexpr double kMaxCallSeconds = 3600;  // of a message's latency and of a start

// From the innermost level outwards; at least one.
using Cluster = std::vector<Level>;

[[nodiscard]] uint64_t rank_count(const Cluster& cluster);
// Ok, or which field of which level cannot be, and what it may be.
[[nodiscard]] Status check(const Cluster& cluster);
// The same, and that the levels hold so many ranks.
[[nodiscard]] Status check(const Cluster& cluster, uint64_t ranks);

// How many of the units in each unit of a level take part in a collective. The ranks that do not
// run the same collective among themselves at the same time.
using Members = std::array<uint32_t, kMaxLevels>;  // 1 beyond the cluster's levels

[[nodiscard]] uint64_t member_count(const Members& members);
[[nodiscard]] Members all_ranks(const Cluster& cluster);
// A group of so many neighbouring ranks, and one rank of each such group, at equal positions. An
// error where groups of that size do not tile the levels.
[[nodiscard]] Result<Members> inside_groups(const Cluster& cluster, uint64_t group_size);
[[nodiscard]] Result<Members> between_groups(const Cluster& cluster, uint64_t group_size);
// Of the ranks at these positions, counted from 0 through the levels: nothing where some unit has
// more of them than another, or a position is beyond the levels or there twice.
[[nodiscard]] std::optional<Members> members_at(const Cluster& cluster,
                                                std::vector<uint64_t> positions);

// Sizes that tile the levels, between one rank and all, in ascending order.
[[nodiscard]] std::vector<uint64_t> group_sizes(const Cluster& cluster);
// The last of them below `size` and the first above it, where there are such.
[[nodiscard]] std::vector<uint64_t> group_sizes_near(const Cluster& cluster, uint64_t size);

}  // namespace ho::cost
