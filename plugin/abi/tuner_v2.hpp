// Tuner plugins, version 2 (looked up since NCCL 2.21): the tuner names one algorithm.
#pragma once

#include <cstddef>

#include "abi/common.hpp"

namespace nccl_abi::v2 {

inline constexpr const char* kTunerSymbol = "ncclTunerPlugin_v2";

struct Tuner {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, DebugLogger logger, void** context);
  // *algorithm, *protocol and *channels keep what they hold where the tuner has no opinion.
  Result (*getCollInfo)(void* context,
                        Function function,
                        size_t bytes,
                        int collnet_support,
                        int nvls_support,
                        int operations,
                        int* algorithm,
                        int* protocol,
                        int* channels);
  Result (*destroy)(void* context);
};
static_assert(offsetof(Tuner, name) == 0 * sizeof(void*));
static_assert(offsetof(Tuner, init) == 1 * sizeof(void*));
static_assert(offsetof(Tuner, getCollInfo) == 2 * sizeof(void*));
static_assert(offsetof(Tuner, destroy) == 3 * sizeof(void*));
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v2
