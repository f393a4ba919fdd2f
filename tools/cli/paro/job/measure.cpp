#include "cli/paro/job/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
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

// On all ranks the most of any.
double slowest(horing::Communicator& job, double seconds) {
  job.all_reduce(std::span<double>(&seconds, 1), HO_MAX);
  return seconds;
}

// Seconds of an all-gather of one number a rank: the median of several, the slowest rank's.
double call_seconds(horing::Communicator& ranks) {
  constexpr size_t kCalls = 31;
  const float mine = 0;
  std::vector<float> all(static_cast<size_t>(ranks.world_size()));
  std::vector<double> seconds;
  for (size_t call = 0; call <= kCalls; ++call) {
    const auto before = std::chrono::steady_clock::now();
    ranks.all_gather(std::span<const float>(&mine, 1), std::span<float>(all));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    if (call > 0) {  // the first one sets up
      seconds.push_back(took.count());
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return slowest(ranks, seconds[kCalls / 2]);
}

// Of the slowest of all such sets of ranks.
double slowest_call_seconds(horing::Communicator& job, int32_t color, int32_t key, bool several) {
  if (!several) {
    return 0;
  }
  horing::Communicator part = job.split(color, key);
  return slowest(job, call_seconds(part));
}

// Seconds of the slowest rank, where all begin at once: the median of several.
template <typename Work>
double together_seconds(horing::Communicator& job, Work work) {
  constexpr size_t kTimes = 5;
  std::vector<double> seconds;
  for (size_t time = 0; time < kTimes; ++time) {
    job.barrier();
    const auto before = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    seconds.push_back(slowest(job, took.count()));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTimes / 2];
}

// Products and sums over more than the innermost cache, as a layer's are.
class Computation {
 public:
  void run(size_t passes) {
    for (size_t pass = 0; pass < passes; ++pass) {
      for (float& value : values_) {
        value = value * 0.5F + 1.0F;
      }
      // That a compiler leaves nothing out.
      volatile float kept = values_[pass % values_.size()];
      static_cast<void>(kept);
    }
  }

 private:
  std::vector<float> values_ = std::vector<float>(size_t{1} << 16U);
};

bool equal(const std::vector<uint32_t>& sizes) {
  return std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
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
  if (!equal(measured.group_sizes)) {
    return measured;  // of no use to the planner
  }
  const int32_t group = job.group_of(job.rank());
  const int32_t position = job.group_rank_of(job.rank());
  const bool groups = job.group_count() > 1;
  measured.intra_call_s =
      slowest_call_seconds(job, group, position, measured.group_sizes.front() > 1);
  measured.inter_call_s = slowest_call_seconds(job, position, group, groups);
  measured.world_call_s = job.world_size() > 1 ? call_seconds(job) : 0;
  return measured;
}

std::optional<double> measure_slowdown(horing::Communicator& job) {
  if (job.world_size() == 1) {
    return std::nullopt;
  }
  // As long as a layer's, so that what a call takes to start does not count.
  constexpr double kLongS = 0.02;
  constexpr size_t kMaxFloats = size_t{1} << 22U;  // of a rank
  std::vector<float> mine(size_t{1} << 12U);
  std::vector<float> all;
  const auto begin = [&] {
    return job.start_all_gather(mine.data(), all.data(), mine.size(), HO_FLOAT32);
  };
  OverlapSeconds seconds;
  for (;; mine.resize(2 * mine.size())) {
    all.resize(mine.size() * static_cast<size_t>(job.world_size()));
    seconds.collectives = together_seconds(job, [&] { begin().wait(); });
    if (seconds.collectives >= kLongS || mine.size() == kMaxFloats) {
      break;
    }
  }
  Computation computation;
  size_t passes = 1;
  while ((seconds.computation = together_seconds(job, [&] { computation.run(passes); })) <
         seconds.collectives) {
    passes *= 2;
  }
  seconds.both = together_seconds(job, [&] {
    horing::Request request = begin();
    computation.run(passes);
    request.wait();
  });
  return slowdown_of(seconds);
}

}  // namespace paro::tool
