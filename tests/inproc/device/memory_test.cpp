// What calls with device memory allocate, keep and wait for.
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "device/work/work.hpp"
#include "job.hpp"
#include "rank_memory.hpp"
#include "sanitizers.hpp"
#include "scoped_variable.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr uint64_t kSeeds = kThreadSanitizer ? 1 : 3;

void begin(cuda_double::Mode mode, uint64_t seed, size_t memory_bytes = size_t{1} << 30U) {
  cuda_double::Config config;
  config.mode = mode;
  config.seed = seed;
  config.memory_bytes = memory_bytes;
  cuda_double::reset(config);
}

}  // namespace

TEST_CASE("channels that are busy at once allocate nothing after the first calls") {
  constexpr size_t kEachHas = size_t{3} << 18U;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    begin(cuda_double::Mode::kRandom, seed);
    std::atomic<int> ready = 0;
    require_job({"1x4"}, [&](ho_comm* comm) {
      const int ordinal = ho_comm_rank(comm) % 2;
      RankMemory gathered(ordinal, kEachHas);
      RankMemory scattered(ordinal, kEachHas);
      RankMemory reduced(ordinal, kEachHas);
      const ho_call_options options[] = {
          gathered.options(), scattered.options(), reduced.options()};
      const auto all_at_once = [&] {
        ho_request* requests[3] = {};
        must(ho_all_gather(comm,
                           gathered.send(),
                           gathered.recv(),
                           kEachHas / 4,
                           HO_FLOAT32,
                           &options[0],
                           nullptr,
                           &requests[0]));
        must(ho_reduce_scatter(comm,
                               scattered.send(),
                               scattered.recv(),
                               kEachHas / 4,
                               HO_FLOAT32,
                               HO_SUM,
                               &options[1],
                               nullptr,
                               &requests[1]));
        must(ho_all_reduce(comm,
                           reduced.send(),
                           reduced.recv(),
                           kEachHas,
                           HO_FLOAT32,
                           HO_SUM,
                           &options[2],
                           nullptr,
                           &requests[2]));
        for (ho_request* request : requests) {
          must(ho_request_wait(request, 0));
        }
      };
      all_at_once();
      must(ho_barrier(comm, nullptr, nullptr));
      if (++ready == 4) {
        cuda_double::forget_counts();
      }
      must(ho_barrier(comm, nullptr, nullptr));
      for (int i = 0; i < 4; ++i) {
        all_at_once();
      }
      must(ho_barrier(comm, nullptr, nullptr));
      if (cuda_double::calls("host_allocate") != 0) {
        throw std::runtime_error("pinned memory was allocated after the first calls");
      }
      must(ho_barrier(comm, nullptr, nullptr));
    });
    CHECK(cuda_double::take_violations().empty());
  }
}

TEST_CASE("sizes that grow from call to call leave few allocations behind") {
  begin(cuda_double::Mode::kEager, 1);
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  for (size_t bytes = 1; bytes < size_t{32} << 20U; bytes += 128U << 10U) {
    work->give_back(must_have(work->take_pinned(bytes)));
    work->give_back(must_have(work->take_device(bytes)));
  }
  CHECK(cuda_double::live().pinned_memory <= 10);
  CHECK(cuda_double::live().device_memory <= 10);
  CHECK(work->memory_bytes() <= size_t{64} << 20U);
}

TEST_CASE("memory that is kept is given up where the device has no more") {
  begin(cuda_double::Mode::kEager, 1, size_t{100} << 20U);
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  for (const size_t mib : {33U, 60U, 16U, 80U, 8U}) {
    INFO(mib);
    work->give_back(must_have(work->take_device(size_t{mib} << 20U)));
  }
  CHECK(work->take_device(size_t{120} << 20U).status().message().find("cuMemAlloc") !=
        std::string::npos);
}

TEST_CASE("a call that the device scales waits while another channel fills the queue") {
  const ScopedVariable piece("HORING_PIECE_BYTES", "4096");
  constexpr size_t kGathered = 200000;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    begin(cuda_double::Mode::kRandom, seed);
    require_job({"1x2"}, [&](ho_comm* comm) {
      RankMemory large(ho_comm_rank(comm) % 2, 2 * kGathered);
      RankMemory small(ho_comm_rank(comm) % 2, 2000);
      const ho_call_options of_large = large.options();
      ho_call_options of_small = small.options();
      of_small.scale = 0.5;
      for (int i = 0; i < 3; ++i) {
        ho_request* requests[2] = {};
        must(ho_all_gather(comm,
                           large.send(),
                           large.recv(),
                           kGathered,
                           HO_FLOAT32,
                           &of_large,
                           nullptr,
                           &requests[0]));
        must(ho_reduce_scatter(comm,
                               small.send(),
                               small.recv(),
                               1000,
                               HO_FLOAT32,
                               HO_PREMUL_SUM,
                               &of_small,
                               nullptr,
                               &requests[1]));
        must(ho_request_wait(requests[0], 0));
        must(ho_request_wait(requests[1], 0));
      }
    });
    CHECK(cuda_double::take_violations().empty());
  }
}

TEST_CASE("a join with a stream that is being captured is refused and can be repeated") {
  begin(cuda_double::Mode::kEager, 1);
  require_job({"1x1"}, [](ho_comm* comm) {
    RankMemory memory(0, 1000);
    RankMemory other(0, 1);
    const ho_call_options options = memory.options();
    ho_request* request = nullptr;
    must(ho_all_reduce(
        comm, memory.send(), memory.recv(), 1000, HO_FLOAT32, HO_SUM, &options, nullptr, &request));
    cuda_double::begin_capture(other.stream());
    const ho_status refused = ho_request_join(request, other.stream(), 0);
    const bool unspoiled = cuda_double::end_capture(other.stream());
    if (!unspoiled || refused != HO_UNSUPPORTED ||
        std::string(ho_last_error_message()).find("captured") == std::string::npos) {
      throw std::runtime_error(std::string("not refused: ") + ho_last_error_message());
    }
    must(ho_request_join(request, other.stream(), 0));
    must(ho_request_wait(request, 0));
  });
  CHECK(cuda_double::take_violations().empty());
}
