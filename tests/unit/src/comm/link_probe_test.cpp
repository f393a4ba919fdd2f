#include "comm/link_probe.hpp"

#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr ProbeLength kUsual{milliseconds(50), milliseconds(3000)};

// `count` messages, one every `gap`, the first after `start` and a gap.
std::vector<nanoseconds> evenly(nanoseconds start, nanoseconds gap, int count) {
  std::vector<nanoseconds> arrivals;
  for (int i = 1; i <= count; ++i) {
    arrivals.push_back(start + i * gap);
  }
  return arrivals;
}

}  // namespace

TEST_CASE("a stream lasts its time and carries enough messages") {
  CHECK_FALSE(ends_probe(0, milliseconds(0), kUsual));
  CHECK_FALSE(ends_probe(1000, milliseconds(49), kUsual));
  CHECK(ends_probe(1000, milliseconds(50), kUsual));
  CHECK(ends_probe(kEnoughMessages - 1, milliseconds(50), kUsual));
}

TEST_CASE("a rank that slept through a stream's time goes on") {
  CHECK_FALSE(ends_probe(0, milliseconds(80), kUsual));
  CHECK_FALSE(ends_probe(kEnoughMessages - 2, milliseconds(2999), kUsual));
}

TEST_CASE("a stream ends at its limit, but for the fewest messages") {
  CHECK_FALSE(ends_probe(0, milliseconds(3000), kUsual));
  CHECK_FALSE(ends_probe(kFewestMessages - 2, milliseconds(9000), kUsual));
  CHECK(ends_probe(kFewestMessages - 1, milliseconds(3000), kUsual));
}

TEST_CASE("all streams of a phase take a part of the timeout only") {
  CHECK(probe_length(milliseconds(50), 1, milliseconds(600000)).most == milliseconds(3000));
  const ProbeLength shared = probe_length(milliseconds(50), 21, milliseconds(8400));
  CHECK(shared.least == milliseconds(50));
  CHECK(shared.most == milliseconds(100));
  const ProbeLength hasty = probe_length(milliseconds(400), 1, milliseconds(1000));
  CHECK(hasty.least == milliseconds(250));
  CHECK(hasty.most == milliseconds(250));
  CHECK(probe_length(milliseconds(50), 0, milliseconds(600000)).most == milliseconds(3000));
}

TEST_CASE("a steady stream's rate is bytes by time") {
  CHECK(probe_rate(evenly(nanoseconds(0), milliseconds(1), 50), 1000) == Approx(1e6));
  CHECK(probe_rate({}, 1000) == 0);
}

// Each was no rate at all when only what arrived after a quarter of the planned time counted.
TEST_CASE("a stream that came late has a rate") {
  CHECK(probe_rate(evenly(milliseconds(80), milliseconds(1), 16), 1000) == Approx(1e6));
  const std::vector<nanoseconds> lone{milliseconds(10)};
  CHECK(probe_rate(lone, 1000) == Approx(1e5));
  std::vector<nanoseconds> stopped = evenly(nanoseconds(0), milliseconds(1), 15);
  stopped.push_back(milliseconds(90));
  CHECK(probe_rate(stopped, 1000) == Approx(7 * 1000 / 0.081));
}

TEST_CASE("a burst in the first quarter is left out") {
  std::vector<nanoseconds> arrivals = evenly(nanoseconds(0), nanoseconds(1000), 20);
  for (int i = 1; i <= 30; ++i) {
    arrivals.push_back(milliseconds(10 + i));
  }
  CHECK(probe_rate(arrivals, 1000) == Approx(1e6));
}

TEST_CASE("arrivals at one moment have a finite rate") {
  const std::vector<nanoseconds> at_once(8, milliseconds(5));
  CHECK(probe_rate(at_once, 1) > 0);
  CHECK(probe_rate(at_once, 1) < 1e11);
}

}  // namespace ho
