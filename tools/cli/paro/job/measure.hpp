// Takes a cluster's shape and rates from the job that this process is a rank of.
#pragma once

#include <horing/communicator.hpp>

#include "cli/paro/job/measured_cluster.hpp"

namespace paro::tool {

// Collective; the same on all ranks. Throws horing::Error.
[[nodiscard]] MeasuredJob measure_job(horing::Communicator& job);

}  // namespace paro::tool
