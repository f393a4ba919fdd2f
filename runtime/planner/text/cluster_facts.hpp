// What is known of a cluster: from arguments or from a file. Pure, but for reading the file.
//
// A file is a JSON object: {"nodes": 4, "ranks_per_node": 8, "memory": "80GB", "intra": "2000Gbit",
// "inter": "80Gbit", "nics": 1}, with the calls' times where they are known. What is left out may
// be given as arguments. Or it has levels (cost/text/levels_file.hpp), of which these are two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "planner/request.hpp"

namespace paro {

struct ClusterFacts {
  std::optional<uint32_t> nodes;
  std::optional<uint32_t> ranks_per_node;
  std::optional<double> memory_bytes;       // per rank
  std::optional<double> intra_bytes_per_s;  // per rank
  std::optional<double> inter_bytes_per_s;  // per NIC
  std::optional<double> nics;               // per node
  // What a collective takes beside its bytes.
  std::optional<double> intra_call_s;
  std::optional<double> inter_call_s;
  std::optional<double> world_call_s;
  // Of collectives that computation hides, the share of their seconds that comes back.
  std::optional<double> slowdown;
  ho::cost::Cluster levels;  // where there are some, only memory and slowdown stand beside them
};

// `name` stands for the file in errors.
[[nodiscard]] ho::Result<ClusterFacts> parse_cluster(std::string_view text, std::string_view name);
[[nodiscard]] ho::Result<ClusterFacts> read_cluster_file(const std::string& path,
                                                         const ho::OptionNames& named = {});

// The short form as a file, which parse_cluster() reads as the same.
[[nodiscard]] std::string cluster_text(const ClusterFacts& facts);

// What `stronger` has, and `weaker` where it has nothing.
[[nodiscard]] ClusterFacts merged(const ClusterFacts& stronger, const ClusterFacts& weaker);

// Writes world (of groups as large as the innermost level), links (but not their algorithm), memory
// and slowdown of the request, or names the option that is missing. Rates of links that such a
// cluster has not need not be known.
[[nodiscard]] ho::Status apply(const ClusterFacts& facts,
                               PlannerRequest& request,
                               const ho::OptionNames& named = {});

}  // namespace paro
