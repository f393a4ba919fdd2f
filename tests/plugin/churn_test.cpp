// What communicators leave behind in the process when they have been destroyed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "bench/nccl_host/coll_net_comm.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/ring_comm.hpp"
#include "catch.hpp"
#include "host_job.hpp"
#include "os/clock.hpp"
#include "releases.hpp"
#include "sanitizers.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

constexpr uint32_t kAtOnce = 10;
// Ten rails have 60 MiB of scratch.
constexpr size_t kMaxGrowth = size_t{16} << 20U;

CollNetOptions few_channels() {
  CollNetOptions options;
  options.settings.channels = 4;
  options.settings.chunk_bytes = 4096;
  options.settings.slot_bytes = 4096;
  return options;
}

size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// A thread that was joined stays in the list for a moment. One that was forgotten stays for good.
void expect_threads(size_t count, uint64_t round) {
  const Deadline deadline = deadline_after(std::chrono::seconds(20));
  while (thread_count() != count && !passed(deadline)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  expect(thread_count() == count,
         std::to_string(count) + " threads before, " + std::to_string(thread_count()) +
             " after round " + std::to_string(round));
}

// Of this process alone: the job's own memory is shared.
size_t own_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      return std::stoul(line.substr(line.find_first_of("0123456789"))) << 10U;
    }
  }
  throw HostError("/proc/self/status has no RssAnon");
}

Work sum_of(uint64_t count) {
  return {Collective::kAllReduce, DType::kInt32, ReduceOp::kSum, count};
}

// A communicator's life on CollNet.
void live(HostRank& self, uint32_t communicator, uint64_t comm_id) {
  CollNetComm comm(self.library(), self.memory(communicator), comm_id, few_channels());
  expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
  const Work work = sum_of(100'000);
  write_input(work, comm.memory());
  comm.run(work);
  expect(count_wrong(work, comm.memory()) == 0, "every byte is right");
  comm.close();
}

// Several lives at once, each on a thread of its own; the first error, "" for none.
std::string live_at_once(HostRank& self, uint64_t first_id) {
  std::vector<std::string> errors(kAtOnce);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&self, &error = errors[i], i, first_id] {
      try {
        live(self, i, first_id + i);
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto failed = std::find_if(
      errors.begin(), errors.end(), [](const std::string& error) { return !error.empty(); });
  return failed == errors.end() ? "" : *failed;
}

}  // namespace

TEST_CASE("a communicator that was destroyed leaves no thread", "[quick]") {
  HostJobOptions options = host_job(2, 1, 12);
  options.communicators = 2;
  options.link_bytes = RingOptions{2, 4096}.link_bytes();
  HostJob job(options, [](HostRank& self) {
    const size_t before = thread_count();
    for (uint64_t round = 0; round < 3; ++round) {
      {
        CollNetComm comm(self.library(), self.memory(), round + 1, few_channels());
        const size_t of_host = thread_count();
        expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
        expect(thread_count() > of_host, "a rail has a thread");
        comm.close();
      }
      {
        RingComm rings(self.library(), self.memory(1), 50, RingOptions{2, 4096});
        write_input(sum_of(900), rings.memory());
        rings.run(sum_of(900));
        rings.close();
      }
      expect_threads(before, round);
    }
  });
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    CHECK(job.outcome(rank).error == "");
  }
}

TEST_CASE("communicators that were destroyed give their memory back", "[quick]") {
  HostJobOptions options = host_job(2, 1, 12);
  options.communicators = kAtOnce;
  require_job(options, [](HostRank& self) {
    uint64_t comm_id = 1;
    live(self, 0, comm_id++);
    const size_t before = own_resident_bytes();
    for (int round = 0; round < 3; ++round, comm_id += kAtOnce) {
      const std::string error = live_at_once(self, comm_id);
      expect(error.empty(), "communicators at once work: " + error);
    }
    const size_t after = own_resident_bytes();
    expect(test::kSanitized || after < before + kMaxGrowth,
           std::to_string(before >> 10U) + " KiB after one communicator, " +
               std::to_string(after >> 10U) + " KiB after " + std::to_string(comm_id));
  });
}
