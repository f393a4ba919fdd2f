// How near the executor comes to what its busiest part must take, in virtual time: its pieces,
// queues, slots and passes, without the speed of any machine.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <string>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "virtual_job.hpp"

namespace ho::test {
namespace {

constexpr Collective kCollectives[] = {
    Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce};
constexpr uint64_t kPieceBytes = 1024;
constexpr uint64_t kPiecesPerChunk = 16;

// Small memory on a slow machine: only ratios matter. As 1 MiB pieces over a NIC of 50 GB/s, where
// a message inside a group takes 1 us.
Case make_case(const std::string& groups,
               Collective collective,
               Algorithm algorithm,
               double ratio) {
  Case made;
  made.groups = groups;
  made.collective = collective;
  made.algorithm = algorithm;
  made.limits.device = true;
  made.limits.piece_bytes = kPieceBytes;
  made.block_count = kPiecesPerChunk * kPieceBytes / sizeof(float);
  made.between = 0.05;
  made.inside = made.between * ratio;
  made.bus = made.inside;
  made.message_ns = 1000;
  return made;
}

std::string row(const Case& each, const Times& times) {
  const auto ms = [](double ns) { return ns / 1e6; };
  const auto end = static_cast<double>(times.end_ns);
  return fmt::format(
      "| {} | {} | {} | {:g} | {:g} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.2f} | {:.2f} |",
      each.groups,
      to_string(each.collective),
      to_string(each.algorithm),
      each.inside / each.between,
      each.bus / each.between,
      ms(times.between_ns),
      ms(times.inside_ns),
      ms(times.block_ns),
      ms(end),
      end / times.bound_ns(),
      end / (times.bound_ns() + times.block_ns));
}

Times run_and_check(const Case& each) {
  const Times times = run_in_virtual_time(each);
  UNSCOPED_INFO(row(each, times));
  CHECK(times.results_are_right);
  CHECK(times.waiting_calls == 0);
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
  return times;
}

// The target, where the lanes are ten to one.
void check_target(const char* groups) {
  for (const Collective collective : kCollectives) {
    const Case each = make_case(groups, collective, Algorithm::kHoRing, 10);
    const Times times = run_and_check(each);
    INFO(row(each, times));
    CHECK(static_cast<double>(times.end_ns) <= 1.05 * (times.bound_ns() + times.block_ns));
    // Nothing is faster than its busiest part: else the bound is none.
    CHECK(static_cast<double>(times.end_ns) >= times.bound_ns());
  }
}

}  // namespace

// As those of real calls over NICs of 50 GB/s (400 Gbit/s), all sizes divided by kScale: the
// pieces and passes are those that such calls get.
constexpr uint64_t kScale = 1024;
Case make_real_case(const std::string& groups, Collective collective, uint64_t block_bytes) {
  Case made = make_case(groups, collective, Algorithm::kHoRing, 10);
  made.block_count = block_bytes / sizeof(float);
  made.limits = {};
  made.limits.device = true;
  made.limits.scratch_bytes *= BindingLimits::kDeviceScratchFactor;
  made.limits.piece_bytes = piece_bytes_of(made) / kScale;
  made.limits.scratch_bytes /= kScale;
  made.block_count /= kScale;
  // What is believed of a host's calls. A piece that is alone has a start, a record and two
  // queries: the 8 to 10 us that a piece is said to take.
  made.host = {5000, 2500, 500};
  return made;
}

std::string host_row(const Case& each, const Times& times) {
  Case without = each;
  without.host = {};
  const Times free = run_in_virtual_time(without);
  const double whole = times.bound_ns() + times.block_ns;
  return fmt::format(
      "| {} | {} | {:g} | {:g} | {} | {:.0f} | {:.1f} | {:.2f} | {:.2f} | {:.0f} % |",
      each.groups,
      to_string(each.collective),
      static_cast<double>(each.block_count * sizeof(float) * kScale) / (1 << 20),
      static_cast<double>(each.limits.piece_bytes * kScale) / (1 << 20),
      times.pieces,
      times.starts,
      static_cast<double>(times.end_ns) / 1e6,
      static_cast<double>(free.end_ns) / whole,
      static_cast<double>(times.end_ns) / whole,
      100 * times.host_share);
}

TEST_CASE("two groups of four end within the bound and one block") {
  check_target("2x4");
}

TEST_CASE("four groups of four end within the bound and one block") {
  check_target("4x4");
}

// A rank of a ring has one link to send on, and spends all of its time inside the node.
TEST_CASE("half of the slots of a link are written while the other half is read") {
  for (const Collective collective : kCollectives) {
    Case each = make_case("1x4", collective, Algorithm::kRing, 1);
    each.bus = each.between;
    const Times times = run_and_check(each);
    INFO(row(each, times));
    CHECK(static_cast<double>(times.end_ns) <= 1.2 * (times.bound_ns() + times.block_ns));
  }
}

TEST_CASE("windows and lags of uneven groups leave results right") {
  for (const char* groups : {"1x3", "3x1", "2+3", "1+3+2"}) {
    for (const uint64_t scratch_bytes : {2 * kPieceBytes, 64 * kPieceBytes}) {
      Case each = make_case(groups, Collective::kAllReduce, Algorithm::kHoRing, 10);
      each.block_count = each.block_count * 3 / 5 + 7;
      each.limits.scratch_bytes = scratch_bytes;
      (void)run_and_check(each);
    }
  }
}

TEST_CASE("flat rings and hierarchical ones also run in windows") {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kMultiRing, Algorithm::kHierarchical}) {
    (void)run_and_check(make_case("2x2", Collective::kAllReduce, algorithm, 10));
  }
}

// As markdown. Beside ten to one: with a bus that is hardly faster than a NIC, and with no lane
// faster than the other.
TEST_CASE("the table of docs/design/device.md is printed", "[.table]") {
  struct Speeds {
    double inside;
    double bus;
  };
  for (const char* groups : {"2x4", "4x4", "4x8"}) {
    for (const Collective collective : kCollectives) {
      for (const Algorithm algorithm : {Algorithm::kHoRing, Algorithm::kRing}) {
        for (const Speeds speeds : {Speeds{10, 10}, Speeds{10, 1.25}, Speeds{1, 1}}) {
          Case each = make_case(groups, collective, algorithm, speeds.inside);
          each.bus = each.between * speeds.bus;
          std::puts(row(each, run_and_check(each)).c_str());
        }
      }
    }
  }
}

TEST_CASE("large calls take few starts, and the host is not what they wait for") {
  for (const Collective collective : kCollectives) {
    const Case each = make_real_case("2x4", collective, uint64_t{128} << 20);
    const Times times = run_and_check(each);
    INFO(row(each, times));
    CHECK(each.limits.piece_bytes * kScale == uint64_t{8} << 20);
    // Of today's pieces: a start and an event each took the host longer than all the rest.
    CHECK(times.starts <= 0.7 * static_cast<double>(times.pieces));
    CHECK(times.host_share <= 0.5);
    CHECK(static_cast<double>(times.end_ns) <= 1.25 * (times.bound_ns() + times.block_ns));
  }
}

TEST_CASE("the table of the host's share is printed", "[.host]") {
  for (const char* groups : {"2x4", "4x4"}) {
    for (const Collective collective : kCollectives) {
      for (const uint64_t mib : {1U, 16U, 128U, 256U}) {
        const Case each = make_real_case(groups, collective, uint64_t{mib} << 20);
        std::puts(host_row(each, run_and_check(each)).c_str());
      }
    }
  }
}

}  // namespace ho::test
