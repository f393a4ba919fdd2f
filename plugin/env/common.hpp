// What the env adapters of all versions do alike.
#pragma once

#include "abi/common.hpp"

namespace ho::plugin::every_env {

nccl_abi::Result finalize();
// NCCL does not say for which of its threads it asks.
const char* value_of(const char* name);

}  // namespace ho::plugin::every_env
