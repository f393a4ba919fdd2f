// Units, and who owns which of their elements. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/partition.hpp"

namespace paro {

// Parameters that a framework computes with, gathers and reduces as one piece: a layer, or some.
// Those that are trained and those that are not lie in two flat buffers; either may be empty.
struct UnitShape {
  std::string name;
  uint64_t trained = 0;
  uint64_t frozen = 0;
  // A unit before it, which shares none: this one has that one's parameters, and none of its own.
  std::optional<uint32_t> shares{};
};

// Whose parameters a unit computes with: its own, or those of the unit that it shares.
[[nodiscard]] inline uint32_t home_of(const std::vector<UnitShape>& units, uint32_t unit) {
  return units[unit].shares.value_or(unit);
}

struct UnitLayout {
  Partition trained;
  Partition frozen;
};

// `alignment` in elements, of every cut. At most 2^44 elements of all units together.
[[nodiscard]] ho::Result<std::vector<UnitLayout>> lay_out(const std::vector<UnitShape>& units,
                                                          const ho::GroupMap& groups,
                                                          uint64_t alignment,
                                                          PartSizes sizes = PartSizes::kAny);

}  // namespace paro
