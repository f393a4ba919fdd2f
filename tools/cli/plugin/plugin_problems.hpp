// What is wrong with an environment for our plugin in a release of NCCL, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "cli/plugin/plugin_search.hpp"

namespace ho {

struct PluginProblem {
  std::string what;
  std::string todo;
};

// own_file: our library, for what to set where none of ours was found; "" where it is not known.
[[nodiscard]] std::vector<PluginProblem> plugin_problems(const Findings& findings,
                                                         const std::string& own_file);
// What is worth knowing and needs nothing to be done.
[[nodiscard]] std::vector<std::string> plugin_remarks(const Findings& findings);
// Why a release does not find all of ours, as a short text; "" where it does.
[[nodiscard]] std::string plugin_shortfall(const Findings& findings);

}  // namespace ho
