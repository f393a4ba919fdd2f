#include "planner/effects.hpp"

#include <algorithm>
#include <cmath>

namespace paro {

StepRange step_range(
    double path_s, double compute_s, double busy_s, const Effects& effects, uint32_t ranks) {
  const double exposed = path_s - compute_s;
  const double hidden = std::max(busy_s - exposed, 0.0);
  const double slowest =
      1 + (effects.jitter > 0 ? effects.jitter * std::sqrt(2 * std::log(double{1} * ranks)) : 0.0);
  return {(path_s + effects.slowdown * hidden) * slowest,
          path_s * slowest,
          std::max(path_s, compute_s + busy_s) * slowest};
}

}  // namespace paro
