#include "planner/training.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace paro {
namespace {

bool is_wide(Precision precision) {
  return precision == Precision::kFp32 || precision == Precision::kTf32;
}

}  // namespace

BytesPerParameter bytes_of(OptimizerKind optimizer, double element_bytes) {
  constexpr double kFp32 = 4;
  const double state = std::max(element_bytes, kFp32);
  constexpr double kScalesOf8Bit = 2 * kFp32 / 256;
  double states = 0;
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      states = 2 * state;
      break;
    case OptimizerKind::kAdamW8Bit:
      states = 2 + kScalesOf8Bit;
      break;
    case OptimizerKind::kSgd:
      break;
    case OptimizerKind::kSgdMomentum:
      states = state;
  }
  return {element_bytes, element_bytes, states + (element_bytes < kFp32 ? kFp32 : 0)};
}

BytesPerParameter bytes_of(OptimizerKind optimizer, Precision precision) {
  return bytes_of(optimizer, is_wide(precision) ? 4.0 : 2.0);
}

ho::Result<uint32_t> sequences_of_rank(uint32_t global_batch,
                                       uint32_t data_ranks,
                                       const ho::OptionNames& named) {
  if (global_batch % data_ranks == 0 && global_batch > 0) {
    return global_batch / data_ranks;
  }
  const uint64_t below = uint64_t{1} * global_batch / data_ranks * data_ranks;
  return ho::invalid(
      fmt::format("{} {}: does not divide among {} ranks of data parallelism; {}{} does",
                  named("global-batch"),
                  global_batch,
                  data_ranks,
                  below > 0 ? fmt::format("{} or ", below) : "",
                  below + data_ranks));
}

Batch choose_batch(uint32_t sequences,
                   double memory_left,
                   double activations_of_sequence,
                   uint32_t least) {
  Batch batch{1, sequences};
  for (uint64_t micro = 2; micro * least <= sequences; ++micro) {
    if (static_cast<double>(micro) * activations_of_sequence > memory_left) {
      break;
    }
    if (sequences % micro == 0) {
      batch = {static_cast<uint32_t>(micro), static_cast<uint32_t>(sequences / micro)};
    }
  }
  return batch;
}

}  // namespace paro
