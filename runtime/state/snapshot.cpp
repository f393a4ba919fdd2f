#include "state/snapshot.hpp"

#include <algorithm>

namespace paro {

uint64_t PartValues::count() const {
  uint64_t count = 0;
  for (const Range& range : ranges) {
    count += range.count();
  }
  return count;
}

uint64_t Snapshot::size_bytes() const {
  uint64_t bytes = 0;
  for (const UnitSnapshot& unit : units) {
    bytes += unit.frozen.bytes.size();
    for (const PartValues& state : unit.states) {
      bytes += state.bytes.size();
    }
  }
  return bytes;
}

std::vector<Range> snapshot_ranges(const Partition& partition, ho::GlobalRank rank) {
  std::vector<Range> ranges;
  for (Range range : partition.owned(Scope::kWorld, rank)) {
    range.end = std::min(range.end, partition.element_count());
    if (range.begin < range.end) {
      ranges.push_back(range);
    }
  }
  return ranges;
}

std::vector<StatePart> parts_of(const Snapshot& snapshot) {
  std::vector<StatePart> parts;
  for (uint32_t u = 0; u < snapshot.units.size(); ++u) {
    const auto add = [&](uint32_t state, const PartValues& values) {
      std::span<const std::byte> left(values.bytes);
      for (const Range& range : values.ranges) {
        const uint64_t bytes = range.count() * ho::size_bytes(values.dtype);
        parts.push_back({u, state, range, values.dtype, left.first(bytes)});
        left = left.subspan(bytes);
      }
    };
    const UnitSnapshot& unit = snapshot.units[u];
    for (uint32_t i = 0; i < unit.states.size(); ++i) {
      add(i, unit.states[i]);
    }
    add(kFrozenState, unit.frozen);
  }
  return parts;
}

}  // namespace paro
