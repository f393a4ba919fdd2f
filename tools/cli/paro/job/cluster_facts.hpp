// What is known of a cluster: from arguments, from a file, or measured in a running job. Pure, but
// for reading the file.
//
// A file is a JSON object: {"nodes": 4, "ranks_per_node": 8, "memory": "80GB", "intra": "2000Gbit",
// "inter": "80Gbit", "nics": 1}. What is left out may be given as arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "planner/request.hpp"

namespace paro::tool {

struct ClusterFacts {
  std::optional<uint32_t> nodes;
  std::optional<uint32_t> ranks_per_node;
  std::optional<double> memory_bytes;       // per rank
  std::optional<double> intra_bytes_per_s;  // per rank
  std::optional<double> inter_bytes_per_s;  // per NIC
  std::optional<double> nics;               // per node
};

// `name` stands for the file in errors.
[[nodiscard]] ho::Result<ClusterFacts> parse_cluster(std::string_view text, std::string_view name);
[[nodiscard]] ho::Result<ClusterFacts> read_cluster_file(const std::string& path);

// What `stronger` has, and `weaker` where it has nothing.
[[nodiscard]] ClusterFacts merged(const ClusterFacts& stronger, const ClusterFacts& weaker);

// Writes world, links (but not their algorithm) and memory of the request, or names the option that
// is missing. Rates of links that such a cluster has not need not be known.
[[nodiscard]] ho::Status apply(const ClusterFacts& facts, PlannerRequest& request);

// Rates over all links of a kind, in a job whose links are all equally busy.
struct RateSpan {
  double slowest = 0;  // 0: there is no such link
  double median = 0;   // of an even number the lower: some had the machine to themselves
  double fastest = 0;
};
[[nodiscard]] RateSpan span_of(std::vector<double> rates);

struct MeasuredJob {
  std::vector<uint32_t> group_sizes;
  uint32_t rails = 0;  // one per NIC
  RateSpan intra;      // what a rank sends to one other rank of its group
  RateSpan inter;      // what a rail carries between two groups
};

// One rate for each kind of link. Between nodes the slowest: a ring over nodes is as fast as its
// slowest link, and that one is slow for good. Inside nodes the median: there links are equal but
// for what the processors do meanwhile, and on a busy machine the slowest of many short streams
// depends on that; a recommendation would change with it from one call to the next.
//
// An error where groups are unequal. Appends to `notes` what the user should know about the
// measurement.
[[nodiscard]] ho::Result<ClusterFacts> facts_of(const MeasuredJob& job,
                                                std::vector<std::string>& notes);

}  // namespace paro::tool
