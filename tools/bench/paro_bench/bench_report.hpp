// What paro-bench prints and writes. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/paro_bench/bench_options.hpp"
#include "bench/paro_bench/outcome.hpp"
#include "planner/request.hpp"

namespace paro::bench {

// What was fixed before measuring.
[[nodiscard]] std::string preface(const BenchOptions& options, const PlannerRequest& links);
// Of one compute factor.
[[nodiscard]] std::string outcomes_text(const BenchOptions& options,
                                        std::span<const Outcome> outcomes,
                                        double compute_factor);
// Of all. Keys stay; new ones may be added.
[[nodiscard]] std::string outcomes_json(const BenchOptions& options,
                                        const PlannerRequest& links,
                                        uint32_t ranks,
                                        std::span<const Outcome> outcomes);
// What was not as it has to be: bytes that are not the step plan's; a line each.
[[nodiscard]] std::vector<std::string> wrong(std::span<const Outcome> outcomes);

}  // namespace paro::bench
