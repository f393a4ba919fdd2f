// Takes a cluster's shape and rates from the job that this process is a rank of.
#pragma once

#include <horing/communicator.hpp>
#include <optional>

#include "cli/paro/job/measured_cluster.hpp"

namespace paro::tool {

// Collective; the same on all ranks. Throws horing::Error.
[[nodiscard]] MeasuredJob measure_job(horing::Communicator& job);

// The same of a computation beside collectives over all ranks: slowdown_of(). Nothing of one rank.
[[nodiscard]] std::optional<double> measure_slowdown(horing::Communicator& job);

}  // namespace paro::tool
