#include "cli/host/measured_levels.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "base/quantity.hpp"
#include "cli/subcommands/statistics.hpp"

namespace ho {
namespace {

struct Kind {
  double slowest = 0;
  double median = 0;
  double latency_s = 0;
};

Result<Kind> kind_of(const std::vector<MeasuredLink>& links, bool between_groups) {
  std::vector<double> rates;
  std::vector<double> latencies;
  for (const MeasuredLink& link : links) {
    if (link.between_groups == between_groups) {
      constexpr double kNanoseconds = 1e-9;
      rates.push_back(link.bytes_per_second);
      latencies.push_back(link.round_trip_ns / 2 * kNanoseconds);
    }
  }
  std::sort(rates.begin(), rates.end());
  std::sort(latencies.begin(), latencies.end());
  if (rates.empty() || rates.front() <= 0) {
    return Status(StatusCode::kConnection,
                  fmt::format("a link {} carried nothing while it was measured; the table shows "
                              "which",
                              between_groups ? "between nodes" : "inside a node"));
  }
  return Kind{rates.front(), percentile(rates, 0.5), percentile(latencies, 0.5)};
}

Result<cost::Level> level_of(const char* name,
                             size_t size,
                             const std::vector<MeasuredLink>& links,
                             bool between_groups) {
  cost::Level level;
  level.name = name;
  level.size = static_cast<uint32_t>(size);
  level.rate = std::numeric_limits<double>::infinity();  // one unit has no links
  if (size > 1) {
    HORING_ASSIGN(const Kind kind, kind_of(links, between_groups));
    const double rate = between_groups ? kind.slowest : kind.median;
    // To four digits: more were noise.
    HORING_ASSIGN(level.rate, parse_rate(name, fmt::format("{:.4g}GB", rate / 1e9)));
    HORING_ASSIGN(level.latency_s, parse_time(name, fmt::format("{:.4g}us", kind.latency_s * 1e6)));
  }
  return level;
}

}  // namespace

Result<cost::LevelsFile> measured_levels(const std::vector<uint32_t>& group_sizes,
                                         uint32_t rails,
                                         const std::vector<MeasuredLink>& links) {
  for (const uint32_t size : group_sizes) {
    if (size != group_sizes.front()) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("this job's groups have {} ranks, and levels take units of one "
                                "size; start it with as many ranks on every node",
                                fmt::join(group_sizes, "+")));
    }
  }
  cost::LevelsFile file;
  HORING_ASSIGN(cost::Level node, level_of("node", group_sizes.front(), links, false));
  file.levels.push_back(std::move(node));
  if (group_sizes.size() > 1) {
    HORING_ASSIGN(cost::Level cluster, level_of("cluster", group_sizes.size(), links, true));
    cluster.nics = rails;
    file.levels.push_back(std::move(cluster));
  }
  HORING_TRY(cost::check(file.levels));
  return file;
}

}  // namespace ho
