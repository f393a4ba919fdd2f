// Who is in which part of a split, from what all ranks gave: the same on all of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"

namespace ho {

// What a rank gives.
struct ColorKey {
  int32_t color = 0;
  int32_t key = 0;
  uint16_t id = 0;  // the lowest one that it has left for a communicator
};

[[nodiscard]] std::vector<std::byte> encode(const ColorKey& value);

// The part of one color.
struct SplitChoice {
  std::vector<GlobalRank> members;  // by key, then by rank; ranks of what is split
  GlobalRank self;                  // this rank among them
  uint16_t id = 0;
  uint16_t last_id = 0;  // of all parts: the ids up to it are used
};

// blobs[r]: what rank r gave, encoded; this rank, `self`, gave `color`. An id per color: the stall
// report distinguishes communicators by it. `what` names the split in errors.
[[nodiscard]] Result<SplitChoice> choose_split(std::string_view what,
                                               std::span<const std::vector<std::byte>> blobs,
                                               int32_t color,
                                               GlobalRank self);

// Differs from the number of every other split that its members have been through.
[[nodiscard]] uint64_t communicator_id_of_split(uint64_t parent, uint32_t split, int32_t color);

}  // namespace ho
