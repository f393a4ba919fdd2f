// What the env adapters of all versions have in common.
#pragma once

#include <cstdint>

#include "abi/common.hpp"

namespace ho::plugin::every_env {

// Of the table of that version. The log is stderr: the first version has no other.
nccl_abi::Result init(int version, uint8_t major, uint8_t minor, uint8_t patch);
nccl_abi::Result finalize();
// It is not known which of NCCL's threads calls.
const char* value_of(const char* name);

}  // namespace ho::plugin::every_env
