// Tuner plugins, version 2 (looked up since NCCL 2.21): the tuner names one algorithm.
#pragma once

#include <cstddef>

#include "abi/common.hpp"
#include "abi/layout.hpp"

namespace nccl_abi::v2 {

// Of versions 3 and 4 too.
template <typename GetCollInfo>
struct BasicTuner {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, DebugLogger logger, void** context);
  GetCollInfo* getCollInfo;
  Result (*destroy)(void* context);
};

// *algorithm, *protocol and *channels keep what they hold where the tuner has no opinion.
using Tuner = BasicTuner<Result(void* context,
                                Function function,
                                size_t bytes,
                                int collnet_support,
                                int nvls_support,
                                int operations,
                                int* algorithm,
                                int* protocol,
                                int* channels)>;
static_assert(tuner_in_place<Tuner>());
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v2
