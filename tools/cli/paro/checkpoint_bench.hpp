// `paro checkpoint bench`: how fast this job saves, beside what its disk takes, and what it costs
// the training to save in the background.
#pragma once

#include <cstdint>
#include <string>

#include "strategy/strategy.hpp"

namespace paro::tool {

struct BenchOptions {
  std::string folder;
  uint64_t parameters = 20'000'000;
  Strategy strategy;
  uint32_t rounds = 5;
  uint32_t steps = 10;     // with one save in the background, and without
  double forward_ms = 40;  // of each of the model's five units, backward twice as long
  std::string json;        // a file; empty: none
};

// In a running job. The exit status.
int checkpoint_bench(const BenchOptions& options);

}  // namespace paro::tool
