// Tuner plugins, version 4 (since NCCL 2.24): the tuner gets whether buffers are registered.
#pragma once

#include <cstddef>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/tuner_v3.hpp"

namespace nccl_abi::v4 {

inline constexpr const char* kTunerSymbol = "ncclTunerPlugin_v4";

using v3::cost_of;
using v3::kIgnoredCost;

struct Tuner {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, DebugLogger logger, void** context);
  // `registered`: both buffers are.
  CostsInfo* getCollInfo;
  Result (*destroy)(void* context);
};
static_assert(offsetof(Tuner, name) == 0 * sizeof(void*));
static_assert(offsetof(Tuner, init) == 1 * sizeof(void*));
static_assert(offsetof(Tuner, getCollInfo) == 2 * sizeof(void*));
static_assert(offsetof(Tuner, destroy) == 3 * sizeof(void*));
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v4
