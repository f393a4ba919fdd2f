// A runner whose states lie on a GPU and are moved by the installed NCCL, as a rank of a job
// (`horing run`), several of them on one GPU, each a host of its own to NCCL. Trains with every
// strategy on the device and on the host: norms and masters must have the same bits. Then the
// host's times of hooks and steps with two of them: medians, and what one in ten takes longer than.
//
// usage: device_paro_runner [steps]
// status: 0; 1 with a text where something is wrong; 77 where there is no GPU or no NCCL.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "must_have.hpp"
#include "on_device/device_states.hpp"
#include "one_gpu.hpp"
#include "runner_cases.hpp"

namespace paro::test {
namespace {

using ho::test::must_be_ok;
using ho::test::must_have;

constexpr int kSkipped = 77;

struct DestroyComm {
  void operator()(ho_comm* comm) const { ho_comm_destroy(comm); }
};

// "GGG: 5 steps in 12.3 ms"
std::string compare(ho_comm* comm, const Job& job, const RankStates& on_device) {
  const std::string name = letters(job.config.strategy);
  const Trained host = train(comm, job, nullptr);
  const auto since = std::chrono::steady_clock::now();
  const Trained device = train(comm, job, &on_device);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - since;
  if (device != host) {
    throw std::runtime_error(name + ": other " +
                             (device.norms != host.norms ? "norms" : "masters") +
                             " than on the host");
  }
  return name + ": " + std::to_string(job.steps) + " steps and what surrounds them in " +
         std::to_string(took.count()) + " ms";
}

// Microseconds that calls took on the host.
class HostTimes {
 public:
  template <typename Call>
  auto take(Call&& call) {
    const auto since = std::chrono::steady_clock::now();
    auto answer = call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - since;
    taken_.push_back(took.count());
    return answer;
  }
  // "3.1 us (710.2)": the median, and what one in ten takes longer than.
  [[nodiscard]] std::string text() {
    std::ranges::sort(taken_);
    std::array<char, 64> text{};
    static_cast<void>(std::snprintf(text.data(),
                                    text.size(),
                                    "%.1f us (%.1f)",
                                    taken_[taken_.size() / 2],
                                    taken_[taken_.size() * 9 / 10]));
    return text.data();
  }

 private:
  std::vector<double> taken_;
};

// What hooks and step() take of the host, where nothing is computed between them.
// "IIG: the host's time: before_forward 3.1 us (710.2), .."
std::string time_hooks(ho_comm* comm, const Job& job, const RankStates& on_device) {
  constexpr uint32_t kWarmUp = 5;
  constexpr uint32_t kSteps = 20;
  RunnerConfig config = job.config;
  config.on_device = on_device.use;
  const auto runner = make_runner(comm, config, *on_device.memory);
  load_initial(*runner);
  for (uint32_t step = 0; step < kWarmUp; ++step) {
    run_hooks(*runner);
    static_cast<void>(must_have(runner->step()));
  }
  HostTimes before_forward;
  HostTimes after_forward;
  HostTimes before_backward;
  HostTimes after_backward;
  HostTimes ends;
  const auto units = static_cast<uint32_t>(config.units.size());
  for (uint32_t hooks = 0; hooks < kSteps * config.micro_batches; ++hooks) {
    for (uint32_t unit = 0; unit < units; ++unit) {
      must_have(before_forward.take([&] { return runner->before_forward(unit); }));
      must_be_ok(after_forward.take([&] { return runner->after_forward(unit); }));
    }
    for (uint32_t unit = units; unit-- > 0;) {
      must_have(before_backward.take([&] { return runner->before_backward(unit); }));
      must_be_ok(after_backward.take([&] { return runner->after_backward(unit); }));
    }
    if ((hooks + 1) % config.micro_batches == 0) {
      must_have(ends.take([&] { return runner->step(); }));
    }
  }
  must_have(runner->flush(0));
  return letters(config.strategy) + ": the host's time: before_forward " + before_forward.text() +
         ", after_forward " + after_forward.text() + ", before_backward " + before_backward.text() +
         ", after_backward " + after_backward.text() + ", step " + ends.text();
}

int run_rank(uint32_t steps) {
  const auto driver = ho::device::driver();
  const auto devices =
      driver.ok() ? ho::device::device_count(**driver) : ho::Result<int>(driver.status());
  const auto nccl = ho::nccl::installed();
  if (!devices.ok() || *devices == 0 || !nccl.ok()) {
    std::printf("no GPU or no NCCL here: %s\n",
                (devices.ok() ? nccl.status() : devices.status()).message().c_str());
    return kSkipped;
  }
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.device = HO_DEVICE_LOCAL_RANK;
  ho_comm* created = nullptr;
  if (ho_comm_create(&options, &created) != HO_OK) {
    throw std::runtime_error(ho_last_error_message());
  }
  const std::unique_ptr<ho_comm, DestroyComm> comm(created);
  ho::test::set_for_one_gpu(ho_comm_rank(created));
  const auto device = must_have(ho::device::Device::open(**driver, ho_comm_device(created)));
  const auto stream = must_have(ho::device::Stream::create(*device));
  const DeviceStates states = must_have(states_on_device(created, stream.handle()));
  const RankStates mine{states.use, states.memory.get()};
  for (const Strategy& strategy : all_strategies()) {
    Job job = job_of(strategy, "");
    job.steps = steps;
    const std::string line = compare(created, job, mine);
    const std::string name = letters(strategy);
    const bool is_timed = name == "NNN" || name == "IIG";
    const std::string times = is_timed ? time_hooks(created, job, mine) + "\n" : "";
    if (ho_comm_rank(created) == 0) {
      std::printf("%s\n%s", line.c_str(), times.c_str());
      static_cast<void>(std::fflush(stdout));
    }
  }
  return 0;
}

}  // namespace
}  // namespace paro::test

int main(int argc, char** argv) {
  try {
    return paro::test::run_rank(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 20);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
