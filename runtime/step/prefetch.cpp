#include "step/prefetch.hpp"

#include <algorithm>

namespace paro {
namespace {

uint64_t elements(const UnitShape& unit) {
  return unit.trained + unit.frozen;
}

uint64_t smallest_run(const std::vector<UnitShape>& units, size_t length) {
  uint64_t run = 0;
  for (size_t i = 0; i < length; ++i) {
    run += elements(units[i]);
  }
  uint64_t smallest = run;
  for (size_t i = length; i < units.size(); ++i) {
    run += elements(units[i]);
    run -= elements(units[i - length]);
    smallest = std::min(smallest, run);
  }
  return smallest;
}

}  // namespace

uint32_t automatic_prefetch(const std::vector<UnitShape>& units) {
  uint64_t largest = 0;
  for (const UnitShape& unit : units) {
    largest = std::max(largest, elements(unit));
  }
  const size_t most =
      std::min<size_t>(kMostAutomaticPrefetch, units.empty() ? 0 : units.size() - 1);
  uint32_t depth = most > 0 ? 1 : 0;
  while (depth < most && smallest_run(units, depth) < largest) {
    ++depth;
  }
  return depth;
}

}  // namespace paro
