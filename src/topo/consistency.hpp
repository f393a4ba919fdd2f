// Do all ranks have equal settings?
#pragma once

#include <span>

#include "base/status.hpp"
#include "topo/rank_info.hpp"

namespace ho {

// infos[r] is rank r's. A kMismatch error names every setting that differs, the ranks that differ
// from most, and both values: "rank 3 (node1): HORING_PIECE_BYTES=65536; 15 ranks have 131072".
[[nodiscard]] Status check_consistency(std::span<const RankInfo> infos);

}  // namespace ho
