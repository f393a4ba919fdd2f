// Of at least one value. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ho {

// Of an even number the mean of the two in the middle.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Of the nearest rank: always one of the values; of an even number the lower of the two in the
// middle is percentile 0.5.
[[nodiscard]] inline double percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double position = std::ceil(fraction * static_cast<double>(values.size()));
  const auto index = static_cast<size_t>(std::max(position, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

}  // namespace ho
