// Env plugins, version 1 (looked up since NCCL 2.28.7).
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/common.hpp"
#include "abi/layout.hpp"

namespace nccl_abi::v1 {

// Of version 2 too.
template <typename Init>
struct BasicEnv {
  const char* name;
  Init* init;
  Result (*finalize)();
  // Null for a variable that is not set. The text is valid until the next call with this name or
  // finalize(). Once loaded it serves all of NCCL's variables: it calls getenv() itself.
  const char* (*getEnv)(const char* name);
};

using Env = BasicEnv<Result(uint8_t major, uint8_t minor, uint8_t patch, const char* suffix)>;
static_assert(env_in_place<Env>());
static_assert(sizeof(Env) == 32);

}  // namespace nccl_abi::v1
