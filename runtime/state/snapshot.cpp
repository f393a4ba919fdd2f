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

}  // namespace paro
