// How messages name a process of the job.
#pragma once

#include <cstddef>
#include <string>

namespace ho::plugin {

// "node1"; with what the environment says besides, "node1, NCCL_HOSTID a, RANK 3": NCCL tells
// plugins no rank, but launchers tell each process its own. Long names lose their middle: at most
// 112 bytes, as the control plane takes them.
[[nodiscard]] std::string host_text();
// The same without a rank.
[[nodiscard]] std::string host_and_id_text();
// That and its number: "node1, pid 71".
[[nodiscard]] std::string process_text();
// The rank first, for where there is little room: "RANK 3 on node1"; without one "pid 71 on node1".
[[nodiscard]] std::string rank_on_host_text(size_t max_bytes);
// What of that fits: first the host's domain goes, then NCCL_HOSTID, and the middle of the host's
// name last.
[[nodiscard]] std::string on_host_text(const std::string& who,
                                       const std::string& host,
                                       const std::string& id,
                                       size_t max_bytes);

}  // namespace ho::plugin
