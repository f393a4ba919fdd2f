// Tuner plugins, version 6 (since NCCL 2.30): the tuner may set the chunk size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/tuner_v5.hpp"

namespace nccl_abi::v6 {

using v3::cost_of;
using v3::kIgnoredCost;
using v5::NvlDomainInfo;
using v5::TunerConstants;

struct Tuner {
  const char* name;
  v5::TunerInit* init;
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
static_assert(tuner_in_place<Tuner>());
static_assert(offsetof(Tuner, getChunkSize) == 4 * sizeof(void*));
static_assert(sizeof(Tuner) == 40);

}  // namespace nccl_abi::v6
