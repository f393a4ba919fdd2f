// The cluster's network as scripts for `ip -batch` and `tc -batch`. Pure.
//
// A rail is one bridge outside the nodes and one veth pair per node into it. Both ends of each pair
// are shaped, so that a node neither sends nor receives faster than its rail. HTB with a small
// burst and a plain FIFO: a token bucket (TBF) with so small a bucket drops segmentation-offloaded
// packets of 64 KiB, a large bucket lets messages through for free, and delay-based disciplines are
// not in every kernel. The management network carries first contact only and is not shaped.
#pragma once

#include <string>

#include "cli/run/cluster_model.hpp"

namespace ho {

// Outside: bridges, and veth pairs whose inner ends are born inside the nodes.
[[nodiscard]] std::string outside_link_script(const Cluster& cluster);
[[nodiscard]] std::string outside_shape_script(const ClusterShape& shape);
// Inside a node: addresses, and everything up.
[[nodiscard]] std::string node_link_script(const ClusterShape& shape, uint32_t node);
[[nodiscard]] std::string node_shape_script(const ClusterShape& shape);
// A new rate for a device that is shaped already.
[[nodiscard]] std::string reshape_script(const std::string& device, uint64_t rate_mbit);

}  // namespace ho
