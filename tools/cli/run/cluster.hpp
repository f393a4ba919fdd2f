// Brings an emulated cluster up inside the outer namespaces, and describes it to programs inside
// it (HORING_CLUSTER names a JSON file with the description).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "cli/run/cluster_model.hpp"

namespace ho {

[[nodiscard]] Result<Cluster> bring_up(const ClusterShape& shape);

[[nodiscard]] std::string to_json(const Cluster& cluster);
[[nodiscard]] Result<Cluster> parse_cluster(std::string_view json);

// The cluster that this process runs in, by HORING_CLUSTER; nothing when that is not set.
[[nodiscard]] Result<std::optional<Cluster>> surrounding_cluster();

// Changes a rail from outside the node: gives its link another state, or a new rate.
enum class LinkState : uint8_t {
  kUp,
  kDown,       // no carrier at the node
  kBlackhole,  // the carrier stays, and nothing passes
};
[[nodiscard]] Status set_link_state(const Cluster& cluster,
                                    uint32_t node,
                                    uint32_t rail,
                                    LinkState state);
[[nodiscard]] Status set_link_rate(const Cluster& cluster,
                                   uint32_t node,
                                   uint32_t rail,
                                   uint64_t rate_mbit);

}  // namespace ho
