// Which job this process is a rank of: NCCL tells plugins neither, but launchers tell each process.
#pragma once

#include "status/report.hpp"

namespace ho::plugin {

// Without a launcher rank 0 of 1, in one job with all processes that have the same parent.
[[nodiscard]] WatchedJob job_of_this_process();

}  // namespace ho::plugin
