// A thousand aborts on a GPU: "aborts [ROUNDS]". Ends with 77 where there is none, with 1 at the
// first round that goes wrong, or where device memory is not given back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "abort_rounds.hpp"
#include "call_memory.hpp"
#include "device/device.hpp"
#include "os/clock.hpp"
#include "os/shared_library.hpp"

namespace {

constexpr int kSkipped = 77;
constexpr int kRounds = 1000;
constexpr int kRoundsPerLine = 100;
constexpr int kFirstRounds = 10;                   // after which what a context needs is there
constexpr size_t kLeftBehind = size_t{256} << 20;  // bytes: a call's memory of a few rounds

int devices_used = 1;

// A device with its context held, so that rounds are not the making of contexts.
struct Held {
  std::shared_ptr<ho::device::Device> device;
  ho::SharedLibrary library;
  int (*memory_info)(size_t* free, size_t* total) = nullptr;  // cuMemGetInfo

  static ho::Result<Held> open(const ho::device::Driver& driver, int ordinal) {
    Held held;
    HORING_ASSIGN(held.device, ho::device::Device::open(driver, ordinal));
    HORING_ASSIGN(held.library, ho::SharedLibrary::open("libcuda.so.1"));
    void* const address = held.library.find("cuMemGetInfo_v2");
    std::memcpy(&held.memory_info, &address, sizeof held.memory_info);
    return held;
  }
  [[nodiscard]] ho::Result<size_t> free_bytes() const {
    HORING_ASSIGN(const auto current, ho::device::CurrentContext::enter(*device));
    size_t free = 0;
    size_t total = 0;
    HORING_TRY(device->check("cuMemGetInfo", memory_info(&free, &total)));
    return free;
  }
};

// How much less is free on any of them.
ho::Result<size_t> lost_bytes(const std::vector<Held>& devices, const std::vector<size_t>& before) {
  size_t lost = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    HORING_ASSIGN(const size_t free, devices[i].free_bytes());
    lost = std::max(lost, before[i] - std::min(free, before[i]));
  }
  return lost;
}

ho::Status run_rounds(const ho::device::Driver& driver, int rounds) {
  std::vector<Held> devices;
  for (int ordinal = 0; ordinal < devices_used; ++ordinal) {
    HORING_ASSIGN(Held held, Held::open(driver, ordinal));
    devices.push_back(std::move(held));
  }
  std::vector<size_t> before(devices.size());
  const int64_t began = ho::now_ns();
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& error : ho::test::abort_round(round, devices_used)) {
      if (!error.empty()) {
        return {ho::StatusCode::kInternal, "round " + std::to_string(round) + ": " + error};
      }
    }
    if (round + 1 == std::min(rounds, kFirstRounds)) {
      for (size_t i = 0; i < devices.size(); ++i) {
        HORING_ASSIGN(before[i], devices[i].free_bytes());
      }
    }
    if ((round + 1) % kRoundsPerLine == 0 || round + 1 == rounds) {
      HORING_ASSIGN(const size_t lost, lost_bytes(devices, before));
      std::printf("%d aborts, %.1f s, %zu bytes not given back\n",
                  round + 1,
                  static_cast<double>(ho::now_ns() - began) / 1e9,
                  lost);
      std::fflush(stdout);
      if (lost > kLeftBehind) {
        return {ho::StatusCode::kInternal, "device memory is not given back after aborts"};
      }
    }
  }
  return {};
}

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
  const ho::Status status = run_rounds(**driver, rounds);
  if (!status.ok()) {
    std::printf("%s\n", status.message().c_str());
  }
  return status.ok() ? 0 : 1;
}
