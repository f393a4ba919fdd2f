// A thousand aborts on a GPU: "aborts [ROUNDS]". Ends with 77 where there is none, with 1 at the
// first round that goes wrong, or where device memory is not given back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "abort_rounds.hpp"
#include "call_memory.hpp"
#include "device/device.hpp"
#include "os/clock.hpp"

namespace {

constexpr int kSkipped = 77;
constexpr int kRounds = 1000;
constexpr int kRoundsPerLine = 100;

int devices_used = 1;

}  // namespace

// run_job()'s question.
int32_t ho::test::device_of(size_t rank) {
  return static_cast<int32_t>(rank) % devices_used;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : kRounds;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: device_aborts [ROUNDS, 1 or more; 1000 where not given]\n");
    return 2;
  }
  const auto driver = ho::device::driver();
  const auto devices = driver.ok() ? ho::device::device_count(**driver) : driver.status();
  if (!devices.ok() || *devices == 0) {
    std::printf("skipped: %s\n",
                devices.ok() ? "no GPU is visible" : devices.status().message().c_str());
    return kSkipped;
  }
  devices_used = std::min(*devices, 2);
  const int64_t began = ho::now_ns();
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& error : ho::test::abort_round(round, devices_used)) {
      if (!error.empty()) {
        std::printf("round %d: %s\n", round, error.c_str());
        return 1;
      }
    }
    if ((round + 1) % kRoundsPerLine == 0 || round + 1 == rounds) {
      std::printf(
          "%d aborts, %.1f s\n", round + 1, static_cast<double>(ho::now_ns() - began) / 1e9);
      std::fflush(stdout);
    }
  }
  return 0;
}
