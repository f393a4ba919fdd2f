// A file of levels (HORING_LEVELS_FILE) as the tuner's inputs.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "core/tuner/inputs.hpp"
#include "cost/cluster.hpp"

namespace ho::plugin {

// From the environment; nothing where no file is named. An error with file, field and value.
[[nodiscard]] Result<std::optional<cost::Cluster>> levels_from_environment();

// NICs, rates and hops of a communicator on these levels: its ranks, nodes and ranks per node are
// set. The first level is inside nodes, and so are those after it until one holds the ranks of a
// node; the next one joins nodes. Those beyond can only make its NICs slower. Rates are those of
// long messages. An error where the levels do not hold such a communicator.
[[nodiscard]] Result<CommonInputs> on_levels(const cost::Cluster& levels, CommonInputs inputs);

// As consistency_text(), of the levels, and of the HORING_TUNER_* that count instead of them.
[[nodiscard]] std::string consistency_text(const Result<std::optional<cost::Cluster>>& levels);

}  // namespace ho::plugin
