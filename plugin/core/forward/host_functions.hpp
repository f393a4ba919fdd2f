// NCCL's functions as a plugin that we open gets them.
#pragma once

#include "abi/common.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin::forward {

struct HostFunctions {
  nccl_abi::DebugLogger log = nullptr;
  nccl_abi::ProfilerCallback profiler = nullptr;
};

// Into our own log, and nowhere: for a host that has handed over none. A plugin may count on both.
[[nodiscard]] HostFunctions own_host_functions();
// Takes over what the host has.
void adopt(const Host& host, HostFunctions& functions);

}  // namespace ho::plugin::forward
