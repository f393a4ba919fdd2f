// The options of paro-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "bench/paro_bench/systems.hpp"
#include "bench/paro_bench/workload.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace paro::bench {

struct BenchOptions {
  WorkloadSpec workload;
  std::vector<System> systems;
  std::vector<double> compute_factors;
  uint32_t rounds = 5;
  uint32_t steps = 2;
  ho::DType dtype = ho::DType::kBfloat16;
  uint32_t prefetch = 1;
  uint64_t bucket_bytes = 0;
  std::string json;
  std::string trace;
};

[[nodiscard]] ho::Parsed<BenchOptions> parse_bench_options(int argc, const char* const* argv);

}  // namespace paro::bench
