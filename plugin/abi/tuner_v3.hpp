// Tuner plugins, version 3 (since NCCL 2.22): the tuner edits a table of costs.
#pragma once

#include <cstddef>

#include "abi/common.hpp"

namespace nccl_abi::v3 {

inline constexpr const char* kTunerSymbol = "ncclTunerPlugin_v3";

// The cost of what cannot run; a tuner leaves such entries alone.
inline constexpr float kIgnoredCost = -1.0F;

// getCollInfo's `costs` is no array of pointers but one block, float[algorithms][protocols].
inline float& cost_of(float** costs, int protocols, int algorithm, int protocol) {
  return reinterpret_cast<float*>(costs)[algorithm * protocols + protocol];
}

struct Tuner {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, DebugLogger logger, void** context);
  // `costs`: see cost_of(). *channels left at 0: NCCL chooses.
  Result (*getCollInfo)(void* context,
                        Function function,
                        size_t bytes,
                        int operations,
                        float** costs,
                        int algorithms,
                        int protocols,
                        int* channels);
  Result (*destroy)(void* context);
};
static_assert(offsetof(Tuner, name) == 0 * sizeof(void*));
static_assert(offsetof(Tuner, init) == 1 * sizeof(void*));
static_assert(offsetof(Tuner, getCollInfo) == 2 * sizeof(void*));
static_assert(offsetof(Tuner, destroy) == 3 * sizeof(void*));
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v3
