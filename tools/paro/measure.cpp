#include "paro/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace paro::tool {
namespace {

constexpr double kNoLink = std::numeric_limits<double>::infinity();

RateSpan span_of(double slowest, double fastest_negated) {
  return std::isfinite(slowest) ? RateSpan{slowest, -fastest_negated} : RateSpan{};
}

}  // namespace

MeasuredJob measure_job(horing::Communicator& job) {
  job.measure_links();
  // Of links inside groups the least rate and the least negated one, that is the greatest; then of
  // links between them.
  std::array<double, 4> extremes{kNoLink, kNoLink, kNoLink, kNoLink};
  for (const ho_link_rate& link : job.link_rates()) {
    const size_t at = link.rail < 0 ? 0 : 2;
    extremes.at(at) = std::min(extremes.at(at), link.bytes_per_second);
    extremes.at(at + 1) = std::min(extremes.at(at + 1), -link.bytes_per_second);
  }
  job.all_reduce(std::span<double>(extremes), HO_MIN);
  MeasuredJob measured;
  for (int32_t group = 0; group < job.group_count(); ++group) {
    measured.group_sizes.push_back(static_cast<uint32_t>(job.group_size(group)));
  }
  measured.rails = static_cast<uint32_t>(job.rail_count());
  measured.intra = span_of(extremes[0], extremes[1]);
  measured.inter = span_of(extremes[2], extremes[3]);
  return measured;
}

}  // namespace paro::tool
