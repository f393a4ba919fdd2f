// What `horing plugin-check` found out, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/plugin/plugin_probe.hpp"
#include "cli/plugin/plugin_problems.hpp"
#include "cli/plugin/plugin_search.hpp"

namespace ho {

struct PluginReport {
  std::string judged;  // "NCCL 2.28.9 (libnccl.so.2)"
  Findings findings;   // of that release
  std::vector<Findings> releases;
  ProbedPlugin probed;  // nothing in it where the network is not ours
  std::vector<PluginProblem> problems;
  std::vector<std::string> remarks;
};

// Also what starting the plugin showed.
[[nodiscard]] std::vector<PluginProblem> problems_of_probe(const Findings& findings,
                                                           const ProbedPlugin& probed);

[[nodiscard]] std::string to_string(const PluginReport& report);
[[nodiscard]] std::string to_json(const PluginReport& report);

}  // namespace ho
