#include "cost/cluster.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ho::cost {
namespace {

std::string field_of(const Cluster& cluster, size_t level, std::string_view field) {
  return fmt::format("level {} ({}): {}", level, cluster[level].name, field);
}

// Beyond these, as beyond kMaxCallSeconds, a plan would have numbers that nobody can read.
constexpr double kMinRate = 1;
constexpr double kMinShare = 1e-6;
constexpr double kMaxNics = 1e6;

struct Quantity {
  std::string_view field;
  double value;
  bool possible;  // written so that a NaN is not
  std::string_view takes;
};

Status check_table(const std::string& where, const LinearTable& table) {
  double before = -1;
  for (const LinearTable::Point& point : table.points()) {
    if (!(point.x > before) || !(point.y >= kMinShare && point.y <= 1)) {
      return invalid(
          fmt::format("{} {}: {}: takes shares from 1e-06 to 1, at points that ascend "
                      "from 0",
                      where,
                      point.x,
                      point.y));
    }
    before = point.x;
  }
  return {};
}

Status check_level(const Cluster& cluster, size_t at) {
  const Level& level = cluster[at];
  const auto finite = [](double value) { return value <= 1e18; };
  const std::array quantities{
      Quantity{"size", double{1} * level.size, level.size > 0, "takes 1 unit or more"},
      Quantity{"rate",
               level.rate,
               level.rate >= kMinRate && (finite(level.rate) || std::isinf(level.rate)),
               "takes bytes per second from 1 to 1e18"},
      Quantity{"nics",
               level.nics,
               level.nics >= kMinShare && level.nics <= kMaxNics,
               "takes a number from 1e-06 to 1000000"},
      Quantity{"oversubscription",
               level.oversubscription,
               level.oversubscription >= 1 && level.oversubscription <= 1 / kMinShare,
               "takes 1, all NICs at their full rate, or more, up to 1000000"},
      Quantity{"latency",
               level.latency_s,
               level.latency_s >= 0 && level.latency_s <= kMaxCallSeconds,
               "takes seconds from 0 to 3600"},
      Quantity{"start",
               level.start_s,
               level.start_s >= 0 && level.start_s <= kMaxCallSeconds,
               "takes seconds from 0 to 3600"},
  };
  for (const Quantity& quantity : quantities) {
    if (!quantity.possible) {
      return invalid(fmt::format(
          "{} {}: {}", field_of(cluster, at, quantity.field), quantity.value, quantity.takes));
    }
  }
  HORING_TRY(
      check_table(field_of(cluster, at, "share of the rate at bytes"), level.share_of_bytes));
  return check_table(field_of(cluster, at, "share of the rate at units"), level.share_of_units);
}

}  // namespace

double LinearTable::at(double x) const {
  if (points_.empty()) {
    return 1;
  }
  const auto above =
      std::ranges::find_if(points_, [x](const Point& point) { return point.x >= x; });
  if (above == points_.end()) {
    return points_.back().y;
  }
  if (above == points_.begin()) {
    return above->y;
  }
  const Point& below = *(above - 1);
  return below.y + (above->y - below.y) * ((x - below.x) / (above->x - below.x));
}

uint64_t rank_count(const Cluster& cluster) {
  uint64_t ranks = 1;
  for (const Level& level : cluster) {
    ranks *= level.size;
  }
  return ranks;
}

Status check(const Cluster& cluster) {
  if (cluster.empty() || cluster.size() > kMaxLevels) {
    return invalid(fmt::format("{} levels: takes 1 to {}", cluster.size(), kMaxLevels));
  }
  uint64_t ranks = 1;
  for (size_t at = 0; at < cluster.size(); ++at) {
    HORING_TRY(check_level(cluster, at));
    ranks *= cluster[at].size;
    if (ranks > kMaxRanks) {
      return invalid(fmt::format("{} {}: with the levels below more than {} ranks; takes less",
                                 field_of(cluster, at, "size"),
                                 cluster[at].size,
                                 kMaxRanks));
    }
  }
  return {};
}

Status check(const Cluster& cluster, uint64_t ranks) {
  HORING_TRY(check(cluster));
  if (rank_count(cluster) == ranks) {
    return {};
  }
  std::vector<uint32_t> sizes;
  for (const Level& level : cluster) {
    sizes.push_back(level.size);
  }
  return invalid(fmt::format("levels of {} hold {} ranks, not {}: takes sizes with that product",
                             fmt::join(sizes, " x "),
                             rank_count(cluster),
                             ranks));
}

uint64_t member_count(const Members& members) {
  uint64_t ranks = 1;
  for (const uint32_t units : members) {
    ranks *= units;
  }
  return ranks;
}

Members all_ranks(const Cluster& cluster) {
  Members members;
  members.fill(1);
  std::ranges::transform(cluster, members.begin(), [](const Level& level) { return level.size; });
  return members;
}

Result<Members> inside_groups(const Cluster& cluster, uint64_t group_size) {
  Members members = all_ranks(cluster);
  uint64_t left = group_size;
  for (size_t at = 0; at < cluster.size(); ++at) {
    const uint32_t size = cluster[at].size;
    const bool whole = left % size == 0;
    if (left == 0 || (!whole && size % left != 0)) {
      return invalid(
          fmt::format("groups of {} ranks: {} {} is neither a multiple nor a divisor of {}",
                      group_size,
                      field_of(cluster, at, "size"),
                      size,
                      left));
    }
    members[at] = whole ? size : static_cast<uint32_t>(left);
    left = whole ? left / size : 1;
  }
  if (left != 1) {
    return invalid(fmt::format("groups of {} ranks: there are {}; takes a divisor of these",
                               group_size,
                               rank_count(cluster)));
  }
  return members;
}

Result<Members> between_groups(const Cluster& cluster, uint64_t group_size) {
  HORING_ASSIGN(Members members, inside_groups(cluster, group_size));
  for (size_t at = 0; at < cluster.size(); ++at) {
    members[at] = cluster[at].size / members[at];
  }
  return members;
}

std::optional<Members> members_at(const Cluster& cluster, std::vector<uint64_t> positions) {
  Members members;
  members.fill(1);
  std::ranges::sort(positions);
  if (positions.empty() || std::ranges::adjacent_find(positions) != positions.end() ||
      positions.back() >= rank_count(cluster)) {
    return std::nullopt;
  }
  for (size_t at = 0; at < cluster.size(); ++at) {
    std::vector<uint64_t> units;  // that have any, in ascending order
    for (const uint64_t position : positions) {
      if (units.empty() || units.back() != position / cluster[at].size) {
        units.push_back(position / cluster[at].size);
      }
    }
    members[at] = static_cast<uint32_t>(positions.size() / units.size());
    // As many in each: the first of unit k is number k times as many.
    for (size_t k = 0; k < units.size(); ++k) {
      const size_t first = k * members[at];
      if (positions.size() % units.size() != 0 || positions[first] / cluster[at].size != units[k] ||
          positions[first + members[at] - 1] / cluster[at].size != units[k]) {
        return std::nullopt;
      }
    }
    positions = std::move(units);
  }
  return members;
}

std::vector<uint64_t> group_sizes(const Cluster& cluster) {
  std::vector<uint64_t> sizes;
  uint64_t below = 1;
  for (const Level& level : cluster) {
    for (uint64_t units = 1; units < level.size; ++units) {
      if (level.size % units == 0 && below * units > 1) {
        sizes.push_back(below * units);
      }
    }
    below *= level.size;
  }
  return sizes;
}

std::vector<uint64_t> group_sizes_near(const Cluster& cluster, uint64_t size) {
  const std::vector<uint64_t> sizes = group_sizes(cluster);
  const auto above = std::ranges::upper_bound(sizes, size);
  const auto below = std::ranges::lower_bound(sizes, size);
  std::vector<uint64_t> near;
  if (below != sizes.begin()) {
    near.push_back(*(below - 1));
  }
  if (above != sizes.end()) {
    near.push_back(*above);
  }
  return near;
}

}  // namespace ho::cost
