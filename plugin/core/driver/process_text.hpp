// How messages name a process of the job.
#pragma once

#include <string>

namespace ho::plugin {

// "node1"; with what the environment says besides, "node1, NCCL_HOSTID a, RANK 3": NCCL tells
// plugins no rank, but launchers tell each process its own. Long names lose their middle: at most
// 112 bytes, as the control plane takes them.
[[nodiscard]] std::string host_text();
// That and its number: "node1, pid 71".
[[nodiscard]] std::string process_text();
// The rank first, for texts that may be cut: "RANK 3 on node1"; without one "pid 71 on node1".
[[nodiscard]] std::string rank_on_host_text();

}  // namespace ho::plugin
