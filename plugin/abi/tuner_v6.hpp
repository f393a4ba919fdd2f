// Tuner plugins, version 6 (since NCCL 2.30): the tuner may set the chunk size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/tuner_v5.hpp"

namespace nccl_abi::v6 {

inline constexpr const char* kTunerSymbol = "ncclTunerPlugin_v6";

using v3::cost_of;
using v3::kIgnoredCost;
using v5::NvlDomainInfo;
using v5::TunerConstants;

struct Tuner {
  const char* name;
  Result (*init)(void** context,
                 uint64_t communicator_id,
                 size_t ranks,
                 size_t nodes,
                 DebugLogger logger,
                 NvlDomainInfo* domains,
                 TunerConstants* constants);
  // `costs`: see v3::cost_of().
  CostsInfo* getCollInfo;
  Result (*finalize)(void* context);
  // May be null. *chunk_size holds NCCL's choice.
  Result (*getChunkSize)(void* context,
                         Function function,
                         size_t bytes,
                         int algorithm,
                         int protocol,
                         int channels,
                         size_t* chunk_size);
};
static_assert(offsetof(Tuner, name) == 0 * sizeof(void*));
static_assert(offsetof(Tuner, init) == 1 * sizeof(void*));
static_assert(offsetof(Tuner, getCollInfo) == 2 * sizeof(void*));
static_assert(offsetof(Tuner, finalize) == 3 * sizeof(void*));
static_assert(offsetof(Tuner, getChunkSize) == 4 * sizeof(void*));
static_assert(sizeof(Tuner) == 40);

}  // namespace nccl_abi::v6
