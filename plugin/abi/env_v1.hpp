// Env plugins, version 1 (looked up since NCCL 2.28.7).
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"

namespace nccl_abi::v1 {

inline constexpr const char* kEnvSymbol = "ncclEnvPlugin_v1";

struct Env {
  const char* name;
  Result (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char* suffix);
  Result (*finalize)();
  // Null for a variable that is not set. The text is valid until the next call with this name or
  // finalize(). Once loaded it serves all of NCCL's variables: it calls getenv() itself.
  const char* (*getEnv)(const char* name);
};
static_assert(offsetof(Env, name) == 0 * sizeof(void*));
static_assert(offsetof(Env, init) == 1 * sizeof(void*));
static_assert(offsetof(Env, finalize) == 2 * sizeof(void*));
static_assert(offsetof(Env, getEnv) == 3 * sizeof(void*));
static_assert(sizeof(Env) == 32);

}  // namespace nccl_abi::v1
