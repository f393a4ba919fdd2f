#include "step/prefetch.hpp"

#include <algorithm>

namespace paro {
namespace {

// That each unit computes with.
std::vector<uint64_t> elements_of(const std::vector<UnitShape>& units) {
  std::vector<uint64_t> elements;
  elements.reserve(units.size());
  for (uint32_t u = 0; u < units.size(); ++u) {
    const UnitShape& home = units[home_of(units, u)];
    elements.push_back(home.trained + home.frozen);
  }
  return elements;
}

uint64_t smallest_run(const std::vector<uint64_t>& elements, size_t length) {
  uint64_t run = 0;
  for (size_t i = 0; i < length; ++i) {
    run += elements[i];
  }
  uint64_t smallest = run;
  for (size_t i = length; i < elements.size(); ++i) {
    run += elements[i];
    run -= elements[i - length];
    smallest = std::min(smallest, run);
  }
  return smallest;
}

}  // namespace

uint32_t automatic_prefetch(const std::vector<UnitShape>& units) {
  if (units.empty()) {
    return 0;
  }
  const std::vector<uint64_t> elements = elements_of(units);
  const uint64_t largest = *std::max_element(elements.begin(), elements.end());
  const size_t most = std::min<size_t>(kMaxAutomaticPrefetch, units.size() - 1);
  uint32_t depth = most > 0 ? 1 : 0;
  while (depth < most && smallest_run(elements, depth) < largest) {
    ++depth;
  }
  return depth;
}

}  // namespace paro
