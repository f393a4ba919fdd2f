// Measuring copies on the double, which checks that nothing that is timed was ordered wrongly.
#include "cli/host/gpu_rates.hpp"

#include <algorithm>
#include <map>

#include "catch.hpp"
#include "cuda_double.hpp"

using namespace ho;

namespace {

constexpr size_t kBytes = size_t{1} << 16U;

RateLimits limits() {
  RateLimits limits;
  limits.bytes = kBytes;
  return limits;
}

std::map<CopyKind, int> kinds_of(const CopyRates& rates) {
  std::map<CopyKind, int> kinds;
  for (const CopyRate& rate : rates.rates) {
    CHECK(rate.bytes_per_second > 0);
    CHECK((rate.peer >= 0) == (rate.kind == CopyKind::kToPeer));
    CHECK(rate.peer != rate.device);
    ++kinds[rate.kind];
  }
  return kinds;
}

}  // namespace

TEST_CASE("copies are measured in each direction and between all devices") {
  for (const auto mode :
       {cuda_double::Mode::kEager, cuda_double::Mode::kLazy, cuda_double::Mode::kRandom}) {
    cuda_double::Config config;
    config.mode = mode;
    config.devices = 3;
    cuda_double::reset(config);
    const auto rates = measure_copy_rates(cuda_double::driver(), std::vector{0, 1, 2}, limits());
    CHECK(rates.failed.empty());
    CHECK(kinds_of(rates) == std::map<CopyKind, int>{{CopyKind::kToDevice, 3},
                                                     {CopyKind::kFromDevice, 3},
                                                     {CopyKind::kBothWays, 3},
                                                     {CopyKind::kWithin, 3},
                                                     {CopyKind::kToPeer, 6}});
    CHECK(cuda_double::violations().empty());
    CHECK(cuda_double::live().none());
  }
}

TEST_CASE("devices that cannot access each other are no pair") {
  cuda_double::Config config;
  config.peers = false;
  cuda_double::reset(config);
  const auto rates = measure_copy_rates(cuda_double::driver(), std::vector{0, 1}, limits());
  CHECK(rates.failed.empty());
  CHECK_FALSE(kinds_of(rates).contains(CopyKind::kToPeer));
  CHECK(cuda_double::calls("context_enable_peer") == 0);
}

TEST_CASE("a device that fails is named and the others are measured") {
  cuda_double::reset();
  // Of the second device: the first has 4 kinds of 6 timings, and the last of its copies is 120th.
  cuda_double::fail_call("copy_async", 125, device::kInvalidValue);
  const auto rates = measure_copy_rates(cuda_double::driver(), std::vector{0, 1}, limits());
  REQUIRE(rates.failed.size() == 1);
  CHECK(rates.failed[0].device == 1);
  CHECK(rates.failed[0].status.message().starts_with("device 1: cuMemcpyAsync"));
  CHECK(kinds_of(rates) == std::map<CopyKind, int>{{CopyKind::kToDevice, 1},
                                                   {CopyKind::kFromDevice, 1},
                                                   {CopyKind::kBothWays, 1},
                                                   {CopyKind::kWithin, 1}});
  CHECK(cuda_double::live().none());
}

TEST_CASE("memory that is not to be had is an error of that device") {
  cuda_double::Config config;
  config.memory_bytes = kBytes;
  cuda_double::reset(config);
  const auto rates = measure_copy_rates(cuda_double::driver(), std::vector{0}, limits());
  REQUIRE(rates.failed.size() == 1);
  CHECK(rates.failed[0].status.code() == StatusCode::kOutOfMemory);
  CHECK(rates.rates.empty());
  CHECK(cuda_double::live().none());
}

TEST_CASE("the deadline ends the measurement and says what to look at") {
  cuda_double::reset();
  RateLimits late = limits();
  late.deadline = Deadline::min();
  const auto rates = measure_copy_rates(cuda_double::driver(), std::vector{0, 1}, late);
  REQUIRE(rates.failed.size() == 2);
  CHECK(rates.failed[0].status.code() == StatusCode::kTimeout);
  CHECK(rates.failed[0].status.message() ==
        "device 0: its copies were not measured in time; is it busy with another program "
        "(nvidia-smi)?");
  CHECK(rates.rates.empty());
  CHECK(cuda_double::live().none());
}

TEST_CASE("copies that never end are left alone at the deadline") {
  cuda_double::reset();
  device::Driver hung = cuda_double::driver();
  // Its time is over when the first copy was looked at.
  static RateLimits* ended = nullptr;
  RateLimits until_then = limits();
  ended = &until_then;
  hung.event_query = [](device::EventHandle) {
    ended->deadline = Deadline::min();
    return device::kNotReady;
  };
  const auto rates = measure_copy_rates(hung, std::vector{0}, until_then);
  REQUIRE(rates.failed.size() == 1);
  CHECK(rates.failed[0].status.code() == StatusCode::kTimeout);
  CHECK(cuda_double::calls("stream_synchronize") == 0);
  CHECK(cuda_double::live().streams == 2);
  cuda_double::reset();
}

TEST_CASE("a measurement that takes long says so once") {
  for (const bool quiet : {true, false}) {
    cuda_double::reset();
    RateLimits reported = limits();
    std::vector<std::string> lines;
    reported.say = [&](const std::string& line) { lines.push_back(line); };
    reported.quiet = quiet ? std::chrono::hours(1) : std::chrono::hours(0);
    (void)measure_copy_rates(cuda_double::driver(), std::vector{0, 1}, reported);
    REQUIRE(lines.size() == (quiet ? 0 : 1));
    if (!quiet) {
      CHECK(lines[0].starts_with("measuring the copies of GPU 0; this ends in "));
    }
  }
}
