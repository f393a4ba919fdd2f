// Env plugins, version 2 (since NCCL 2.30.7): the plugin may log.
#pragma once

#include <cstdint>

#include "abi/common.hpp"
#include "abi/env_v1.hpp"

namespace nccl_abi::v2 {

using Env = v1::BasicEnv<Result(
    uint8_t major, uint8_t minor, uint8_t patch, const char* suffix, DebugLogger logger)>;
static_assert(env_in_place<Env>());
static_assert(sizeof(Env) == 32);

}  // namespace nccl_abi::v2
