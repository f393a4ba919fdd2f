// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace paro::tool {

// Of at least one value; of an even number the mean of the two in the middle.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace paro::tool
