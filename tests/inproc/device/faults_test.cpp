// A driver call that fails, wherever it is: every rank has an error that names it, and nothing is
// left behind. An abort in mid-call.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "abort_rounds.hpp"
#include "catch.hpp"
#include "cuda_double.hpp"
#include "job.hpp"
#include "rank_memory.hpp"
#include "sanitizers.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kFloats = 200000;

// Of the library's calls alone: the test has made its memory before, and frees it after faults.
std::vector<std::string> errors_with_fault(const std::string& call, uint64_t k) {
  std::atomic<int> ready = 0;
  return run_job({"2x2"}, [&](ho_comm* comm) {
    RankMemory memory(ho_comm_rank(comm) % 2, kFloats);
    must(ho_barrier(comm, nullptr, nullptr));
    if (++ready == 4) {
      cuda_double::fail_call(call, k, device::kInvalidValue);
    }
    must(ho_barrier(comm, nullptr, nullptr));
    std::string failed;
    ho_op_report report = HO_OP_REPORT_INIT;
    for (int i = 0; i < 2 && failed.empty(); ++i) {
      if (memory.all_reduce(comm, &report) != HO_OK) {
        failed = ho_last_error_message();
      }
    }
    cuda_double::fail_call(call, UINT64_MAX, device::kInvalidValue);
    if (!failed.empty()) {
      throw std::runtime_error(failed);
    }
  });
}

}  // namespace

TEST_CASE("a driver call that fails in a call is an error on every rank and leaves nothing") {
  // Without the last two it goes on: it polls, or gives up memory that it keeps and asks again.
  for (const char* call : {"copy_async",
                           "launch",
                           "event_record",
                           "event_query",
                           "context_push",
                           "stream_host_function",
                           "host_allocate"}) {
    const std::string name = call;
    const bool does_without = name == "stream_host_function" || name == "host_allocate";
    int64_t all_failed = 0;
    // The two calls have 28 copies or more, and as many kernels. With the last of them a rank may
    // fail alone: the others have ended by then.
    for (const uint64_t k : {1U, 2U, 7U, 16U}) {
      // The 16th of these may be one before the end of an event, which has nobody to tell.
      if ((kThreadSanitizer && k % 2 == 0) || (name == "context_push" && k == 16)) {
        continue;
      }
      cuda_double::reset({});
      const auto errors = errors_with_fault(call, k);
      INFO(call << " #" << k);
      const auto failed = std::count_if(
          errors.begin(), errors.end(), [](const auto& error) { return !error.empty(); });
      CHECK((failed == 0 || failed == 4));
      all_failed += failed;
      for (const std::string& error : errors) {
        INFO(error);
        CHECK((error.empty() || error.find("device ") != std::string::npos));
      }
      CHECK(cuda_double::live().none());
      CHECK(cuda_double::take_violations().empty());
    }
    INFO(call);
    CHECK((all_failed > 0) != does_without);
  }
}

TEST_CASE("a lost context ends a call with an error and not in a wait") {
  cuda_double::reset({});
  std::atomic<int> ready = 0;
  const auto errors = run_job({"2x1"}, [&](ho_comm* comm) {
    RankMemory memory(ho_comm_rank(comm) % 2, kFloats);
    must(ho_barrier(comm, nullptr, nullptr));
    if (++ready == 2) {
      cuda_double::lose_context();
    }
    must(ho_barrier(comm, nullptr, nullptr));
    must(memory.all_reduce(comm));
  });
  for (const std::string& error : errors) {
    CHECK(error.find("ILLEGAL_ADDRESS") != std::string::npos);
  }
  cuda_double::reset({});
}

TEST_CASE("aborts in mid-call end it everywhere and the stream runs on") {
  for (int round = 0; round < (kThreadSanitizer ? 3 : 10); ++round) {
    cuda_double::Config config;
    config.mode = cuda_double::Mode::kRandom;
    config.seed = static_cast<uint64_t>(round);
    cuda_double::reset(config);
    for (const std::string& error : abort_round(3 * round, 2)) {
      CHECK(error == "");
    }
    CHECK(cuda_double::violations().empty());
    CHECK(cuda_double::live().none());
  }
}
