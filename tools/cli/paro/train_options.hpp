// The options of `paro train`. Pure, but for usage that is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "step/buckets.hpp"
#include "strategy/strategy.hpp"

namespace paro::tool {

// Embedding, gain, head.
inline constexpr uint32_t kUnitsBesideBlocks = 3;

struct TrainOptions {
  std::vector<Strategy> strategies;
  ho::DType dtype = ho::DType::kFloat32;
  std::string json;  // a file; empty: none
  uint32_t steps = 12;
  uint32_t accumulation = 1;
  uint32_t prefetch = 1;
  uint32_t units = 5;
  uint64_t unit_elements = 0;
  uint64_t bucket_bytes = kDefaultBucketBytes;
  double forward_ms = 0;
  uint64_t budget_bytes = 0;  // 0: none
  std::string save;           // a folder for checkpoints; empty: none are saved
  uint32_t save_every = 0;    // steps; 0: after the last step only
  bool resume = false;
  bool fp32_gradients = false;
  bool on_device = false;  // states on each rank's device, moved by NCCL
};

// argv[0] is the subcommand's name.
[[nodiscard]] ho::Parsed<TrainOptions> parse_train_options(int argc, const char* const* argv);

}  // namespace paro::tool
