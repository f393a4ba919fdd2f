// What the env adapters of all versions do alike.
#pragma once

#include <cstdint>

#include "abi/common.hpp"

namespace ho::plugin::every_env {

// interface: "env v1", for the log, which is stderr: the first version has no other.
nccl_abi::Result init(const char* interface, uint8_t major, uint8_t minor, uint8_t patch);
nccl_abi::Result finalize();
// NCCL does not say for which of its threads it asks.
const char* value_of(const char* name);

}  // namespace ho::plugin::every_env
