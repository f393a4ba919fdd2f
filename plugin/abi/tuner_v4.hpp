// Tuner plugins, version 4 (since NCCL 2.24): the tuner gets whether buffers are registered.
#pragma once

#include <cstddef>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/tuner_v3.hpp"

namespace nccl_abi::v4 {

using v3::cost_of;
using v3::kIgnoredCost;

// `registered`: both buffers are.
using Tuner = v2::BasicTuner<CostsInfo>;
static_assert(tuner_in_place<Tuner>());
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v4
