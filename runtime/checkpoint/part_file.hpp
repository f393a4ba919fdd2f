// What one rank writes of a checkpoint: its snapshot, cut into pieces, each with a checksum.
//
// A piece is the tensor "UNIT/STATE/FIRST": elements of a unit's flat buffer from FIRST on, of the
// state ("master", "exp_avg", "frozen"). The metadata's "checksums" has one for each tensor in the
// order of their places. Beside them may lie the tensor "rank_state", the framework's own bytes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/manifest.hpp"
#include "state/snapshot.hpp"

namespace paro::checkpoint {

inline constexpr const char* kFrozen = "frozen";
inline constexpr const char* kRankState = "rank_state";
inline constexpr uint64_t kMaxRankStateBytes = uint64_t{64} << 20;
// So that a reader of a part of a piece need not read much more to check it.
inline constexpr uint64_t kMaxPieceElements = uint64_t{4} << 20;

// A piece by its name.
struct StatePiece {
  uint32_t unit = 0;
  std::string state;
  uint64_t first_element = 0;
};
[[nodiscard]] std::string to_string(const StatePiece& piece);
[[nodiscard]] ho::Result<StatePiece> piece_from(const std::string& name);

// Creates the file and syncs it: piece by piece, so that the disk works while the next one's
// checksum is made, and the header, whose length is known before, at last. `states` are the names
// of each unit's states.
[[nodiscard]] ho::Result<PartFile> write_part_file(const Path& path,
                                                   const std::vector<StatePart>& parts,
                                                   const std::vector<std::string>& states,
                                                   std::span<const std::byte> rank_state);

}  // namespace paro::checkpoint
