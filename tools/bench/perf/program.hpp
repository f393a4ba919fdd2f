// all_gather_perf, reduce_scatter_perf and all_reduce_perf: one program under three names.
#pragma once

#include "bench/perf/options.hpp"

namespace ho::perf {

// All of main() but which collective it is.
[[nodiscard]] int run_program(harness::Collective collective, int argc, char** argv);

}  // namespace ho::perf
