// The model of time (src/cost) against the plans as the executor carries them out in virtual time.
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "catch.hpp"
#include "cost/collective.hpp"
#include "virtual_job.hpp"

namespace ho::test {
namespace {

constexpr double kBetween = 50;  // bytes per ns
constexpr double kInside = 500;
// Next to nothing: a link inside a group holds few messages, and each waits for the news that one
// before it was read, which the model leaves out.
constexpr double kMessageNs = 1;

struct Size {
  uint64_t bytes;
  uint64_t scale;  // by which sizes and rates are divided: only ratios matter
};
constexpr std::array kSizes{
    Size{uint64_t{64} << 10U, 16}, Size{uint64_t{1} << 20U, 64}, Size{uint64_t{64} << 20U, 1024}};
constexpr std::array kCollectives{
    Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce};

struct World {
  const char* groups;
  uint32_t group_count;
  uint32_t group_size;
};
constexpr std::array kWorlds{World{"2x4", 2, 4}, World{"4x4", 4, 4}, World{"8x4", 8, 4}};

Case case_of(const World& world, Collective collective, Algorithm algorithm, const Size& size) {
  Case made;
  made.groups = world.groups;
  made.collective = collective;
  made.algorithm = algorithm;
  made.limits.device = true;
  made.limits.scratch_bytes *= BindingLimits::kDeviceScratchFactor;
  made.block_count = size.bytes / sizeof(float) / (world.group_count * world.group_size);
  made.limits.piece_bytes = piece_bytes_of(made) / size.scale;
  made.limits.scratch_bytes /= size.scale;
  made.block_count /= size.scale;
  made.between = kBetween / static_cast<double>(size.scale);
  made.inside = kInside / static_cast<double>(size.scale);
  made.bus = made.inside * 1000;
  made.message_ns = static_cast<int64_t>(kMessageNs);
  return made;
}

double modelled_ns(const World& world, const Case& made, const Size& size) {
  const auto piece = static_cast<double>(made.limits.piece_bytes * size.scale);
  cost::Level inside;
  inside.name = "group";
  inside.size = world.group_size;
  inside.rate = kInside;
  // A message is written to a slot and read from it: the other time, of as many as there are at
  // once.
  const bool flat = made.algorithm == Algorithm::kRing || made.algorithm == Algorithm::kMultiRing;
  inside.latency_s = kMessageNs + (flat ? 1 : world.group_size - 1) * piece / kInside;
  cost::Level between;
  between.name = "world";
  between.size = world.group_count;
  between.rate = kBetween;
  between.nics = world.group_size;
  between.latency_s = 2 * piece / kInside;
  const cost::Cluster cluster{inside, between};
  return seconds_of(cluster,
                    cost::all_ranks(cluster),
                    cost::Call{made.collective,
                               cost::algorithm_of(made.algorithm),
                               static_cast<double>(size.bytes),
                               piece});
}

std::string row(const World& world, const Case& made, const Size& size, double ran, double model) {
  return fmt::format("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:+.1f} % |",
                     world.groups,
                     to_string(made.collective),
                     to_string(made.algorithm),
                     size.bytes,
                     ran / 1e3,
                     model / 1e3,
                     100 * (model / ran - 1));
}

// How far the model is from what ran, as a share of it.
double difference(const World& world,
                  Collective collective,
                  Algorithm algorithm,
                  const Size& size,
                  bool print = false) {
  const Case made = case_of(world, collective, algorithm, size);
  const Times times = run_in_virtual_time(made);
  const auto ran = static_cast<double>(times.end_ns);
  const double model = modelled_ns(world, made, size);
  const std::string text = row(world, made, size, ran, model);
  UNSCOPED_INFO(text);
  if (print) {
    std::puts(text.c_str());
    std::fflush(stdout);
  }
  CHECK(times.results_are_right);
  return std::abs(model / ran - 1);
}

constexpr double kMaxDifference = 0.05;

}  // namespace

TEST_CASE("the model of HO-Ring is as the executor ran it") {
  for (const World& world : kWorlds) {
    for (const Collective collective : kCollectives) {
      for (const Size& size : kSizes) {
        const bool large = size.bytes == kSizes.back().bytes;
        if (large && world.group_count > 2 && collective != Collective::kAllGather) {
          continue;  // they take long; [.model] has them
        }
        CHECK(difference(world, collective, Algorithm::kHoRing, size) <= kMaxDifference);
      }
    }
  }
}

TEST_CASE("the model of the other algorithms is as the executor ran them") {
  for (const World& world : kWorlds) {
    for (const Collective collective : kCollectives) {
      if (world.group_count == kWorlds.back().group_count && collective != Collective::kAllGather) {
        continue;  // they take long; [.model] has them
      }
      for (const Algorithm algorithm :
           {Algorithm::kRing, Algorithm::kMultiRing, Algorithm::kHierarchical}) {
        CHECK(difference(world, collective, algorithm, kSizes[1]) <= kMaxDifference);
      }
    }
  }
}

TEST_CASE("the table of docs/design/cost.md is printed", "[.model]") {
  for (const World& world : kWorlds) {
    for (const Collective collective : kCollectives) {
      for (const Algorithm algorithm : {Algorithm::kHoRing,
                                        Algorithm::kHierarchical,
                                        Algorithm::kRing,
                                        Algorithm::kMultiRing}) {
        for (const Size& size : kSizes) {
          (void)difference(world, collective, algorithm, size, true);
        }
      }
    }
  }
}

}  // namespace ho::test
