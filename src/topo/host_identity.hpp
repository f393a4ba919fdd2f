// Which ranks share memory. Ranks of one host may use shared memory and one another's process ids.
// So a host here is a boot of a kernel plus the network, pid and ipc namespaces: containers with
// namespaces of their own are hosts of their own.
#pragma once

#include <string>

#include "base/status.hpp"

namespace ho {

// "<boot id>.net4026531840.pid4026531836.ipc4026531839", or HORING_HOST_ID where it is set.
[[nodiscard]] Result<std::string> host_identity(const std::string& proc_root = "/proc");
[[nodiscard]] std::string host_name();

}  // namespace ho
