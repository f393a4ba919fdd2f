// Calls with device memory: their place among what a stream is given, what they refuse, what they
// cost, and that their results have the bits of host memory's.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "device/address.hpp"
#include "job.hpp"
#include "rank_memory.hpp"
#include "sanitizers.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kCount = 300001;  // more than one piece

int ordinal_of(ho_comm* comm) {
  return ho_comm_rank(comm) % 2;
}

std::vector<float> values_of(int32_t rank, size_t count = kCount) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i) + 0.1F * static_cast<float>(rank));
  }
  return values;
}

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error(promise + "; last message: " + ho_last_error_message());
  }
}

// The double forgets what other tests did. `mode` is how it runs what it is given.
void start_over(cuda_double::Mode mode, uint64_t seed = 1, int channels = 0) {
  cuda_double::Config config;
  config.mode = mode;
  config.seed = seed;
  config.channels = channels;
  cuda_double::reset(config);
}

// What was fetched is the sum of all ranks' values.
void fetched_sums(ho_comm* comm, RankMemory& memory) {
  const std::vector<float> sums = memory.fetched();
  for (size_t i = 0; i < kCount; i += 997) {
    double sum = 0;
    for (int32_t rank = 0; rank < ho_comm_world_size(comm); ++rank) {
      sum += std::sin(static_cast<float>(i) + 0.1F * static_cast<float>(rank));
    }
    expect(std::abs(sums[i] - sum) < 1e-4, "sums up at " + std::to_string(i));
  }
}

void fetch_sums(ho_comm* comm, RankMemory& memory) {
  memory.fetch();
  fetched_sums(comm, memory);
}

ho_request* started_all_reduce(ho_comm* comm, const RankMemory& memory, ho_op op = HO_SUM) {
  const ho_call_options options = memory.options();
  ho_request* request = nullptr;
  must(ho_all_reduce(
      comm, memory.send(), memory.recv(), kCount, HO_FLOAT32, op, &options, nullptr, &request));
  return request;
}

// Fills, calls, fetches, all on one stream.
void all_reduce_on_stream(ho_comm* comm, RankMemory& memory) {
  memory.fill(values_of(ho_comm_rank(comm)));
  must(memory.all_reduce(comm));
  fetch_sums(comm, memory);
}

// Of these tests of waits, a run on a busy machine shows nothing where the host sees the work's end
// before it would make a stream wait for it: then there is no wait, and none is needed.
constexpr int kAttempts = 50;

// Of waits that order work: those before host functions alone have a test of their own
// (work_test.cpp).
std::vector<cuda_double::WaitSite> sites_of_waits() {
  std::vector<cuda_double::WaitSite> sites;
  for (int attempt = 0; attempt < kAttempts && sites.empty(); ++attempt) {
    start_over(cuda_double::Mode::kLazy);
    require_job({"2x2"}, [](ho_comm* comm) {
      RankMemory memory(ordinal_of(comm), kCount);
      all_reduce_on_stream(comm, memory);
    });
    REQUIRE(cuda_double::violations().empty());
    sites = cuda_double::wait_sites();
    std::erase_if(sites, [](const cuda_double::WaitSite& site) { return !site.orders_work; });
  }
  return sites;
}

bool is_noticed_without_waits_of(uint64_t site) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    start_over(cuda_double::Mode::kLazy);
    cuda_double::drop_waits_of(site);
    const auto errors = run_job({"2x2"}, [](ho_comm* comm) {
      RankMemory memory(ordinal_of(comm), kCount);
      all_reduce_on_stream(comm, memory);
    });
    const bool failed =
        std::any_of(errors.begin(), errors.end(), [](const auto& error) { return !error.empty(); });
    if (cuda_double::dropped_waits() > 0 && (failed || !cuda_double::take_violations().empty())) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a call has its place among what its stream was given before and is given later") {
  for (const auto mode :
       {cuda_double::Mode::kEager, cuda_double::Mode::kLazy, cuda_double::Mode::kRandom}) {
    for (const int channels : {0, 1}) {
      start_over(mode, 7, channels);
      require_job({"2x2"}, [](ho_comm* comm) {
        RankMemory memory(ordinal_of(comm), kCount);
        for (int i = 0; i < 3; ++i) {
          all_reduce_on_stream(comm, memory);
        }
      });
      CHECK(cuda_double::violations().empty());
      CHECK(cuda_double::live().none());
    }
  }
}

// HORING_TEST_SEEDS says how many.
TEST_CASE("random orders of the device leave results as they are") {
  const char* const set = std::getenv("HORING_TEST_SEEDS");
  const uint64_t usual = kThreadSanitizer ? 1 : 3;
  const uint64_t seeds = set == nullptr ? usual : std::strtoull(set, nullptr, 10);
  REQUIRE(seeds > 0);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const int channels : {1, 2, 8}) {
      start_over(cuda_double::Mode::kRandom, seed, channels);
      require_job({"2x2"}, [](ho_comm* comm) {
        RankMemory memory(ordinal_of(comm), kCount);
        all_reduce_on_stream(comm, memory);
      });
      INFO("seed " << seed << ", channels " << channels);
      CHECK(cuda_double::violations().empty());
    }
  }
}

TEST_CASE("a wait that is left out is noticed") {
  const auto sites = sites_of_waits();
  REQUIRE_FALSE(sites.empty());
  for (const auto& site : sites) {
    INFO(site.text);
    CHECK(is_noticed_without_waits_of(site.id));
  }
  start_over(cuda_double::Mode::kEager);
}

TEST_CASE("requests are joined by any stream and end on their own") {
  start_over(cuda_double::Mode::kLazy);
  require_job({"2x2"}, [](ho_comm* comm) {
    RankMemory memory(ordinal_of(comm), kCount);
    RankMemory other(ordinal_of(comm), 1);
    memory.fill(values_of(ho_comm_rank(comm)));
    ho_request* const request = started_all_reduce(comm, memory, HO_MAX);
    must(ho_request_join(request, other.stream(), 0));
    must(ho_request_join(request, memory.stream(), 0));
    memory.fetch();
    expect(memory.fetched()[0] == std::sin(0.1F * static_cast<float>(ho_comm_world_size(comm) - 1)),
           "is the largest");
    must(ho_request_wait(request, 0));
    must(ho_comm_status(comm));
  });
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
}

// With a device that takes its time: a join that waited for it would always find the end. Rank 3 is
// late, so that the others' progress threads are at the call when it is joined. A machine that is
// busy may let the device end first, so it is tried again.
TEST_CASE("a join returns before the device is through") {
  constexpr size_t kMany = size_t{4} << 20U;
  start_over(cuda_double::Mode::kRandom);
  std::atomic<int> early = 0;
  for (int attempt = 0; attempt < kAttempts && early == 0; ++attempt) {
    require_job({"2x2"}, [&](ho_comm* comm) {
      RankMemory memory(ordinal_of(comm), kMany);
      memory.fill(values_of(0, kMany));
      const ho_call_options options = memory.options();
      const bool late = ho_comm_rank(comm) == 3;
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(late ? 30 : 0));
        ho_request* request = nullptr;
        must(ho_all_gather(comm,
                           memory.send(),
                           memory.recv(),
                           kMany / 4,
                           HO_FLOAT32,
                           &options,
                           nullptr,
                           &request));
        std::this_thread::sleep_for(std::chrono::milliseconds(late ? 0 : 10));
        must(ho_request_join(request, memory.stream(), 0));
        int32_t done = 0;
        must(ho_request_test(request, &done));
        early += late ? 0 : 1 - done;
        must(ho_request_wait(request, 0));
      }
    });
  }
  CHECK(early > 0);
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("a join with a limit ends in time, and the stream is as it was") {
  start_over(cuda_double::Mode::kRandom);
  std::atomic<int> joining = 0;
  require_job({"2x2"}, [&](ho_comm* comm) {
    RankMemory memory(ordinal_of(comm), kCount);
    memory.fill(values_of(ho_comm_rank(comm)));
    const bool late = ho_comm_rank(comm) == 3;
    while (late && joining < 3) {
      std::this_thread::yield();
    }
    ho_request* const request = started_all_reduce(comm, memory);
    if (!late) {
      expect(ho_request_join(request, memory.stream(), 20) == HO_IN_PROGRESS, "waits for rank 3");
      ++joining;
    }
    must(ho_request_join(request, memory.stream(), 0));
    fetch_sums(comm, memory);
    must(ho_request_wait(request, 0));
    must(ho_comm_status(comm));
  });
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
}

TEST_CASE("after the first calls nothing is allocated and nothing waits for the device") {
  start_over(cuda_double::Mode::kRandom);
  std::atomic<int> ready = 0;
  require_job({"2x2"}, [&](ho_comm* comm) {
    RankMemory memory(ordinal_of(comm), kCount);
    const auto reduce = [&] { must(ho_request_wait(started_all_reduce(comm, memory), 0)); };
    memory.fill(values_of(0));
    for (int i = 0; i < 3; ++i) {
      reduce();
    }
    must(ho_barrier(comm, nullptr, nullptr));
    if (++ready == 4) {
      cuda_double::forget_counts();
    }
    must(ho_barrier(comm, nullptr, nullptr));
    for (int i = 0; i < 4; ++i) {
      reduce();
    }
    must(ho_barrier(comm, nullptr, nullptr));
    expect(cuda_double::synchronizing_calls() == 0, "no call waits for the device");
    expect(cuda_double::calls("copy_async") > 0, "the double was used");
    must(ho_barrier(comm, nullptr, nullptr));
  });
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("host and device memory give the same bits and bytes on the wire") {
  start_over(cuda_double::Mode::kEager);
  struct Outcome {
    std::vector<float> values;
    uint64_t inter_bytes = 0;
    uint64_t intra_bytes = 0;
  };
  for (const char* groups : {"2x2", "3x2", "1+3"}) {
    std::map<std::string, std::map<int32_t, Outcome>> outcomes;
    std::mutex mutex;
    for (const char* kind : {"host", "device", "mixed"}) {
      require_job({groups}, [&](ho_comm* comm) {
        const int32_t rank = ho_comm_rank(comm);
        RankMemory memory(ordinal_of(comm), kCount);
        const std::string here(kind);
        const bool on_device = here == "device" || (here == "mixed" && rank % 2 == 0);
        std::vector<float> send = values_of(rank);
        std::vector<float> recv(kCount);
        memory.fill(send);
        ho_call_options options = memory.options();
        options.algorithm = HO_ALGORITHM_HO_RING;
        ho_op_report report = HO_OP_REPORT_INIT;
        must(ho_all_reduce(comm,
                           on_device ? memory.send() : send.data(),
                           on_device ? memory.recv() : recv.data(),
                           kCount,
                           HO_FLOAT32,
                           HO_AVG,
                           &options,
                           &report,
                           nullptr));
        if (on_device) {
          memory.fetch();
          recv = memory.fetched();
        }
        const std::lock_guard lock(mutex);
        outcomes[here][rank] = {recv, report.inter_sent_bytes, report.intra_sent_bytes};
      });
    }
    for (const char* kind : {"device", "mixed"}) {
      for (const auto& [rank, outcome] : outcomes.at(kind)) {
        const Outcome& host = outcomes.at("host").at(rank);
        INFO(groups << ", " << kind << ", rank " << rank);
        CHECK(outcome.values == host.values);
        CHECK(outcome.inter_bytes == host.inter_bytes);
        CHECK(outcome.intra_bytes == host.intra_bytes);
      }
    }
  }
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("what cannot be a buffer or a stream is named") {
  start_over(cuda_double::Mode::kEager);
  require_job({"1x1"}, [](ho_comm* comm) {
    RankMemory memory(0, kCount);
    const RankMemory elsewhere(1, kCount);
    std::vector<float> host(kCount);
    const auto refused = [&](const void* send,
                             void* recv,
                             size_t count,
                             ho_op op,
                             void* stream,
                             ho_status wanted,
                             const std::string& text) {
      ho_call_options options = HO_CALL_OPTIONS_INIT;
      options.stream = stream;
      const ho_status status =
          ho_all_reduce(comm, send, recv, count, HO_FLOAT32, op, &options, nullptr, nullptr);
      const std::string message = ho_last_error_message();
      expect(status == wanted, "the status of: " + text);
      expect(message.find(text) != std::string::npos, "the message has: " + text);
    };
    refused(memory.send(),
            host.data(),
            10,
            HO_SUM,
            nullptr,
            HO_INVALID_ARGUMENT,
            "recv is ordinary host memory beside device memory");
    refused(host.data(),
            memory.recv(),
            10,
            HO_SUM,
            nullptr,
            HO_INVALID_ARGUMENT,
            "send is ordinary host memory beside device memory");
    refused(elsewhere.send(),
            memory.recv(),
            10,
            HO_SUM,
            nullptr,
            HO_INVALID_ARGUMENT,
            "send is memory of device 1, this communicator was made for device 0");
    refused(memory.send() + 5,
            memory.recv(),
            kCount,
            HO_SUM,
            nullptr,
            HO_INVALID_ARGUMENT,
            "bytes up to the end of its allocation");
    refused(memory.send(),
            memory.recv(),
            10,
            HO_SUM,
            elsewhere.stream(),
            HO_INVALID_ARGUMENT,
            "stream");
    cuda_double::begin_capture(memory.stream());
    refused(memory.send(), memory.recv(), 10, HO_SUM, memory.stream(), HO_UNSUPPORTED, "captur");
    expect(cuda_double::end_capture(memory.stream()), "a refusal spoils no capture");
    expect(ho_send(comm, memory.send(), 1, HO_FLOAT32, 0, 0, nullptr, nullptr) == HO_UNSUPPORTED,
           "sends are of host memory");
    // None of it has harmed the communicator. Registered memory goes with device memory.
    must(ho_comm_status(comm));
    must(ho_comm_register(comm, host.data(), host.size() * sizeof(float)));
    expect(ho_comm_register(comm, host.data(), 100) == HO_INVALID_ARGUMENT, "is registered once");
    expect(std::string(ho_last_error_message()).find("pinned already") != std::string::npos,
           "says that it is pinned");
    memory.fill(values_of(0));
    const ho_call_options options = memory.options();
    must(ho_all_reduce(
        comm, memory.send(), host.data(), 10, HO_FLOAT32, HO_SUM, &options, nullptr, nullptr));
    must(ho_comm_deregister(comm, host.data()));
  });
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("calls go on while another thread captures a graph") {
  for (const auto mode : {cuda_double::Mode::kEager, cuda_double::Mode::kRandom}) {
    start_over(mode);
    require_job({"2x2"}, [](ho_comm* comm) {
      RankMemory memory(ordinal_of(comm), kCount);
      const RankMemory captured(ordinal_of(comm), 1);
      cuda_double::begin_capture(captured.stream());
      all_reduce_on_stream(comm, memory);
      must(ho_request_wait(started_all_reduce(comm, memory), 0));
      must(ho_barrier(comm, nullptr, nullptr));
      ho_comm* part = nullptr;  // which allocates
      must(ho_comm_split(comm, 0, ho_comm_rank(comm), &part));
      ho_comm_destroy(part);
      must(ho_barrier(comm, nullptr, nullptr));
      expect(cuda_double::end_capture(captured.stream()), "no capture is spoiled");
    });
    CHECK(cuda_double::violations().empty());
    CHECK(cuda_double::live().none());
  }
}

// As torch's expandable segments are, of 20 MiB there.
TEST_CASE("buffers may lie across the segments of mapped memory but not reach beyond them") {
  constexpr size_t kSegment = 100000;
  start_over(cuda_double::Mode::kRandom);
  require_job({"2x2"}, [](ho_comm* comm) {
    RankMemory memory(ordinal_of(comm), kCount);
    const device::DeviceAddress mapped = [&] {
      const auto current = must_have(device::CurrentContext::enter(memory.device()));
      return cuda_double::map_segments(kCount * sizeof(float) + 8, kSegment);
    }();
    auto* const buffer = static_cast<float*>(device::pointer_to(mapped));
    memory.fill(values_of(ho_comm_rank(comm)));
    const ho_call_options options = memory.options();
    const auto reduce = [&](const float* send, size_t count) {
      return ho_all_reduce(
          comm, send, buffer + 1, count, HO_FLOAT32, HO_SUM, &options, nullptr, nullptr);
    };
    expect(reduce(buffer + 1, kCount + 2) == HO_INVALID_ARGUMENT, "the last segment has an end");
    expect(std::string(ho_last_error_message()).find("has 1200008 bytes up to the end") !=
               std::string::npos,
           "says how many bytes there are");
    must(reduce(memory.send(), kCount));
    memory.fetch_from(buffer + 1);
    fetched_sums(comm, memory);
    cuda_double::unmap(mapped);
  });
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("the streams of a communicator have the greatest priority") {
  start_over(cuda_double::Mode::kEager);
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto current = must_have(device::CurrentContext::enter(*device));
  const auto stream = must_have(device::Stream::create(*device));
  CHECK(cuda_double::priority_of(stream.handle()) == cuda_double::kGreatestPriority);
}

TEST_CASE("a device that is not there is named when the communicator is made") {
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.rank = 0;
  options.world_size = 1;
  ho_comm* comm = nullptr;
  options.device = 5;
  CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
  CHECK(std::string(ho_last_error_message()).find("CUDA_VISIBLE_DEVICES") != std::string::npos);
  options.device = -7;
  CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
  CHECK(std::string(ho_last_error_message()).find("HO_DEVICE_LOCAL_RANK") != std::string::npos);
  options.device = HO_DEVICE_LOCAL_RANK;
  options.local_rank = 1;
  CHECK(ho_comm_create(&options, &comm) == HO_OK);
  ho_comm_destroy(comm);
}
