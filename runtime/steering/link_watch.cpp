#include "steering/link_watch.hpp"

#include <algorithm>

namespace paro::steering {

std::optional<LinkWatch::Change> LinkWatch::after_step(const StepReport& report) {
  if (interval_ > 0 && sums_.steps >= interval_) {
    sums_ = {};
  }
  ++sums_.steps;
  sums_.collective_ns += static_cast<double>(report.collective_ns);
  sums_.bytes += static_cast<double>(report.sent.intra + report.sent.inter);
  sums_.compute_ns += static_cast<double>(report.compute_ns);
  if (interval_ == 0 || sums_.steps < interval_ || sums_.bytes == 0 || sums_.collective_ns == 0) {
    return std::nullopt;
  }
  const double now = sums_.collective_ns / sums_.bytes;
  if (!reference_) {
    reference_ = now;
  }
  const bool changed = now > kChangedRate * *reference_ || now * kChangedRate < *reference_;
  return changed ? std::optional<Change>({*reference_, now}) : std::nullopt;
}

void LinkWatch::begin_anew() {
  sums_ = {};
  reference_.reset();
}

double LinkWatch::compute_s() const {
  return sums_.compute_ns / 1e9 / static_cast<double>(std::max<uint64_t>(sums_.steps, 1));
}

}  // namespace paro::steering
