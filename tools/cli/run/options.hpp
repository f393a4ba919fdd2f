// The options of `horing run` and `horing cluster`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "cli/run/cluster_model.hpp"
#include "cli/run/supervisor.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "group/group_map.hpp"

namespace ho {

struct ClusterOptions {
  // Set after parsing, but for --probe and for `horing run` inside a cluster, which has it.
  std::optional<GroupMap> sizes;
  std::optional<uint32_t> rails;
  uint64_t rail_rate_mbit = 0;
  std::optional<Emulation> emulation;  // nothing: the best that this machine permits
  bool quiet = false;
  bool probe_only = false;
};

struct RunOptions {
  ClusterOptions cluster;
  std::string order = "block";
  std::string key_file;
  JobOptions job;
};

// argv[0] is the subcommand's name.
[[nodiscard]] Parsed<RunOptions> parse_run_options(int argc, const char* const* argv);
struct ClusterCommandOptions {
  ClusterOptions cluster;
  std::vector<std::string> command;
};
[[nodiscard]] Parsed<ClusterCommandOptions> parse_cluster_options(int argc,
                                                                  const char* const* argv);

// Rails, when --rails is not given: one per rank of the smallest node, at most four; none where
// there is one node only.
[[nodiscard]] ClusterShape shape_of(const ClusterOptions& options);

}  // namespace ho
