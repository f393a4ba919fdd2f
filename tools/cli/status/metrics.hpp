// Jobs as Prometheus' text format has them (version 0.0.4). Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/status/job_view.hpp"

namespace ho {

[[nodiscard]] std::string metrics_text(const std::vector<JobView>& jobs);

}  // namespace ho
