// A runner whose states lie on a GPU and are moved by the installed NCCL, as a rank of a job
// (`horing run`), several of them on one GPU, each a host of its own to NCCL. Trains with every
// strategy on the device and on the host: norms and masters must have the same bits.
//
// usage: device_paro_runner [steps]
// status: 0; 1 with a text where something is wrong; 77 where there is no GPU or no NCCL.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "must_have.hpp"
#include "on_device/device_states.hpp"
#include "one_gpu.hpp"
#include "runner_cases.hpp"

namespace paro::test {
namespace {

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
    if (ho_comm_rank(created) == 0) {
      std::printf("%s\n", line.c_str());
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
