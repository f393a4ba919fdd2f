// What the C interface refuses before anything is sent.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "cases.hpp"
#include "catch.hpp"
#include "horing.h"
#include "job.hpp"

using namespace ho::test;

namespace {

bool says(const char* text) {
  return std::strstr(ho_last_error_message(), text) != nullptr;
}

ho_status reduce_one(ho_comm* comm, ho_op_report* report, ho_request** request) {
  static thread_local float value = 1.0F;
  return ho_all_reduce(comm, &value, &value, 1, HO_FLOAT32, HO_MAX, nullptr, report, request);
}

}  // namespace

TEST_CASE("a report without a sensible size is refused") {
  require_job({"2x1"}, [](ho_comm* comm) {
    for (const size_t size : {size_t{0}, sizeof(size_t), size_t{5000}}) {
      ho_op_report report = HO_OP_REPORT_INIT;
      report.size = size;
      expect(reduce_one(comm, &report, nullptr) == HO_INVALID_ARGUMENT, "refuses");
      expect(says(("ho_op_report.size is " + std::to_string(size)).c_str()), "names the size");
      expect(says("HO_OP_REPORT_INIT"), "says what to do");
      ho_request* request = nullptr;
      expect(reduce_one(comm, &report, &request) == HO_INVALID_ARGUMENT, "refuses a request");
      expect(request == nullptr, "gives no request");
    }
    // The communicator is fine, and an older, shorter report is written as far as it goes.
    ho_op_report report = HO_OP_REPORT_INIT;
    report.size = offsetof(ho_op_report, total_ns);
    report.total_ns = 4711;
    must(reduce_one(comm, &report, nullptr));
    expect(report.inter_sent_bytes > 0, "writes what fits");
    expect(report.total_ns == 4711, "writes no further");
    expect(report.size == offsetof(ho_op_report, total_ns), "keeps the size");
  });
}

TEST_CASE("a setting out of its range is an error when a communicator is made") {
  for (const char* name : {"HORING_PIECE_BYTES", "HORING_SHM_RING_BYTES", "HORING_SPIN_US"}) {
    ::setenv(name, "1234567", 1);
    const std::vector<std::string> errors = run_job({"1x1"}, [](ho_comm*) {});
    ::unsetenv(name);
    INFO(errors.front());
    CHECK(errors.front().find("rank 0: " + std::string(name) + "=1234567: takes ") !=
          std::string::npos);
  }
}

TEST_CASE("the last error's message cannot drive the terminal that shows it") {
  ho_store store = HO_STORE_INIT;
  store.set = [](void*, const char*, const void*, size_t) {
    ho_set_last_error_message("\x1b]0;owned\x07 and \x1b[2J");
    return HO_UNSUPPORTED;
  };
  store.wait = [](void*, const char*, uint64_t) { return HO_TIMEOUT; };
  store.get = [](void*, const char*, void*, size_t, size_t*) { return HO_UNSUPPORTED; };
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.rank = 0;
  options.world_size = 2;
  options.store = &store;
  ho_comm* comm = nullptr;
  CHECK(ho_comm_create(&options, &comm) == HO_UNSUPPORTED);
  INFO(ho_last_error_message());
  CHECK(says("\\x1b]0;owned\\x07 and \\x1b[2J"));
  CHECK_FALSE(says("\x1b"));
}

TEST_CASE(
    "a part of a job is refused by what is wrong with its ranks, and older callers have none") {
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.rank = 0;
  options.world_size = 1;
  const std::string key(64, 'a');
  options.job_key = key.c_str();
  const std::array<int32_t, 2> ranks{-1, 1};
  options.job = 7;
  options.job_size = 2;
  ho_comm* comm = nullptr;
  CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
  CHECK(says("job_ranks has 0 numbers"));
  options.job_ranks = ranks.data();
  options.job_rank_count = 1;
  CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
  CHECK(says("job_ranks[0] is -1"));
  options.job_rank_count = SIZE_MAX;  // nothing of it is read
  CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
  CHECK(says("job_rank_count"));
  // By a thread that ends: one that has called may call again, for as long as it lives.
  std::thread([&] {
    options.size = offsetof(ho_comm_options, job);
    CHECK(ho_comm_create(&options, &comm) == HO_OK);
    ho_comm_destroy(comm);
    options.size = sizeof options;
    options.job_ranks = ranks.data() + 1;
    options.job_rank_count = 1;
    CHECK(ho_comm_create(&options, &comm) == HO_OK);
    ho_comm_destroy(comm);
  }).join();
}
