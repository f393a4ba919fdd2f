#include "cli/paro/job/measure.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace paro::tool {
namespace {

// Every rank's rates of one kind of link, in one list that is the same on all ranks. Ranks may have
// different numbers of them: lists are filled up with a rate that no link has.
std::vector<double> gathered(horing::Communicator& job, std::vector<double> mine) {
  constexpr double kNoLink = -1;
  uint64_t most = mine.size();
  job.all_reduce(std::span<uint64_t>(&most, 1), HO_MAX);
  if (most == 0) {
    return {};
  }
  mine.resize(most, kNoLink);
  std::vector<double> all(most * static_cast<size_t>(job.world_size()));
  job.all_gather(std::span<const double>(mine), std::span<double>(all));
  std::erase(all, kNoLink);
  return all;
}

}  // namespace

MeasuredJob measure_job(horing::Communicator& job) {
  job.measure_links();
  std::vector<double> intra;
  std::vector<double> inter;
  for (const ho_link_rate& link : job.link_rates()) {
    (link.rail < 0 ? intra : inter).push_back(link.bytes_per_second);
  }
  MeasuredJob measured;
  for (int32_t group = 0; group < job.group_count(); ++group) {
    measured.group_sizes.push_back(static_cast<uint32_t>(job.group_size(group)));
  }
  measured.rails = static_cast<uint32_t>(job.rail_count());
  measured.intra = span_of(gathered(job, std::move(intra)));
  measured.inter = span_of(gathered(job, std::move(inter)));
  return measured;
}

}  // namespace paro::tool
