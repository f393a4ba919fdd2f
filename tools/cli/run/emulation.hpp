// Chooses how a cluster is emulated on this machine, brings it up and runs something on it.
#pragma once

#include <functional>

#include "base/status.hpp"
#include "cli/run/cluster_model.hpp"
#include "cli/run/options.hpp"

namespace ho {

// Runs body with a cluster as requested, and returns body's status. The cluster ends with it.
// keeps_terminal: see run_in_outer_namespaces. who: the command, for messages.
[[nodiscard]] Result<int> run_on_cluster(const ClusterOptions& options,
                                         bool keeps_terminal,
                                         std::string_view who,
                                         const std::function<Result<int>(const Cluster&)>& body);

// Prints what this machine permits; 0 when all, 1 when something is missing.
[[nodiscard]] int print_probe();

// Prints an error as this command's; the status to exit with.
int print_error(std::string_view who, const Status& status);

}  // namespace ho
