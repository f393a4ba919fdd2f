// Which algorithm a call gets. Pure, and from values that all ranks agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "cost/cluster.hpp"
#include "exec/binding.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

// The links under a communicator, where all ranks have agreed on them (HORING_LEVELS_FILE).
struct ModelledLevels {
  std::shared_ptr<const cost::Cluster> levels;
  cost::Members members{};  // the communicator's ranks
  size_t group_levels = 1;  // inside a group
  BindingLimits limits{};
};

struct SelectionRules {
  std::optional<Algorithm> forced;   // HORING_ALGORITHM
  uint64_t direct_max_bytes = 8192;  // HORING_DIRECT_MAX_BYTES
  std::optional<ModelledLevels> levels = {};
};

struct SelectionInput {
  Collective collective = Collective::kAllGather;
  // Of the whole data: world size blocks where each rank has one; for all-to-all of one rank's.
  uint64_t total_bytes = 0;
  // The most that direct has in one message; less or more than all in an all-to-all.
  uint64_t message_bytes = 0;
  bool fp32_sums = false;
  std::optional<Algorithm> requested;  // by the call; beats everything
};

// `auto` takes direct or ho_ring: by the model of time (src/cost) where the links are known, for
// what it has closed forms of; else by bytes. hierarchical and flat rings send no fewer messages
// than these, and no fewer bytes between groups.
//
// An error where the requested algorithm cannot do it; it names those that can.
[[nodiscard]] Result<Algorithm> select_algorithm(const SelectionRules& rules,
                                                 const SelectionInput& input);

}  // namespace ho
