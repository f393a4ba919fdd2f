// NCCL's log as core writes to it.
#pragma once

#include "abi/common.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

// Nothing where NCCL gave none.
[[nodiscard]] Plugin::Log log_of(nccl_abi::DebugLogger logger);

}  // namespace ho::plugin
