// Starts a job's ranks and stays with them to the end: forwards their output, and when one fails,
// the time is up or the user interrupts, ends them all (SIGTERM, SIGKILL two seconds later).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "cli/run/cluster_model.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

struct JobOptions {
  std::vector<std::string> command;
  std::optional<std::chrono::milliseconds> timeout;
  bool prefix = true;
  bool rank0_raw = false;
  bool own_cpus = false;    // the ranks of each node keep to CPUs that no other node has
  bool keep_going = false;  // the other ranks go on when one fails
};

// Runs the job to its end. The status for the shell: 0, the first failing rank's (128 + signal for
// a killed one), 124 when the time was up, 128 + signal when interrupted. An error: nothing ran.
[[nodiscard]] Result<int> run_ranks(const Cluster& cluster,
                                    const GroupMap& placement,
                                    const JobFacts& facts,
                                    const std::vector<int>& pace_fds,
                                    const JobOptions& options);

}  // namespace ho
