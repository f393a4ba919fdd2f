// Tuner plugins, version 3 (since NCCL 2.22): the tuner edits a table of costs.
#pragma once

#include <cstddef>

#include "abi/common.hpp"
#include "abi/tuner_v2.hpp"

namespace nccl_abi::v3 {

// The cost of what cannot run; a tuner leaves such entries alone.
inline constexpr float kIgnoredCost = -1.0F;

// getCollInfo's `costs` is no array of pointers but one block, float[algorithms][protocols].
inline float& cost_of(float** costs, int protocols, int algorithm, int protocol) {
  return reinterpret_cast<float*>(costs)[algorithm * protocols + protocol];
}

// `costs`: see cost_of(). *channels left at 0: NCCL chooses.
using Tuner = v2::BasicTuner<Result(void* context,
                                    Function function,
                                    size_t bytes,
                                    int operations,
                                    float** costs,
                                    int algorithms,
                                    int protocols,
                                    int* channels)>;
static_assert(tuner_in_place<Tuner>());
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v3
