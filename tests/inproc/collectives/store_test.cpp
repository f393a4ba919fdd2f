// Communicators whose ranks find each other through a store, by the C interface.
#include <array>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "cases.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "job.hpp"
#include "memory_store.hpp"
#include "scoped_variable.hpp"

using namespace ho;
using namespace ho::test;

namespace {

void check_sum(ho_comm* comm) {
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const auto world = static_cast<uint32_t>(ho_comm_world_size(comm));
  uint32_t sum = rank + 1;
  must(ho_all_reduce(comm, &sum, &sum, 1, HO_UINT32, HO_SUM, nullptr, nullptr, nullptr));
  expect(sum == world * (world + 1) / 2, "every rank's number is in the sum once");
}

void check_splits(ho_comm* comm) {
  check_sum(comm);
  ho_comm* half = nullptr;
  must(ho_comm_split(comm, ho_comm_rank(comm) % 2, 0, &half));
  check_sum(half);
  ho_comm_destroy(half);
  check_sum(comm);  // splits meet through rank 0: it must not leave while another is in one
}

// One rank's way to a store. Knows how often it was called, and by which threads.
class CountedStore {
 public:
  explicit CountedStore(MemoryStore& values) : values_(values) {}
  void set(const std::string& key, const std::string& value) {
    count();
    values_.set(key, value);
  }
  bool wait(const std::string& key, std::chrono::milliseconds timeout) {
    count();
    return values_.wait(key, timeout);
  }
  std::optional<std::string> get(const std::string& key) {
    count();
    return values_.get(key);
  }
  [[nodiscard]] int calls() const { return calls_; }
  [[nodiscard]] int of_other_threads() const { return of_other_threads_; }

 private:
  void count() {
    ++calls_;
    of_other_threads_ += std::this_thread::get_id() == maker_ ? 0 : 1;
  }

  MemoryStore& values_;
  const std::thread::id maker_ = std::this_thread::get_id();
  std::atomic<int> calls_ = 0;
  std::atomic<int> of_other_threads_ = 0;
};

ho_comm_options options_of(const ho_store& store, int32_t rank, int32_t world_size) {
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.rank = rank;
  options.world_size = world_size;
  options.store = &store;
  return options;
}

}  // namespace

TEST_CASE(
    "ranks that met through a store run collectives and split, whatever the environment has") {
  // Refused where they are looked at.
  const ScopedVariable key("HORING_JOB_KEY", "short");
  const ScopedVariable at_index("HORING_RENDEZVOUS", "nowhere");
  for (const char* groups : {"1x3", "2x2", "1+3"}) {
    MemoryStore memory;
    const ho_store store = callbacks_of(memory, "a job");
    JobOptions options{groups};
    options.store = &store;
    require_job(options, check_splits);
    CHECK(memory.size() == 1);
    CHECK(memory.get("a job/rank0") == "horing store 1\nover\n");
  }
}

TEST_CASE("jobs of different names are made at the same time over one store") {
  MemoryStore memory;
  constexpr std::array kNames{"first", "second", "third"};
  std::array<std::vector<std::string>, kNames.size()> errors;
  std::vector<std::thread> jobs;
  for (size_t job = 0; job < kNames.size(); ++job) {
    jobs.emplace_back([&, job] {
      const ho_store store = callbacks_of(memory, kNames[job]);
      JobOptions options{"1x3"};
      options.store = &store;
      errors[job] = run_job(options, check_sum);
    });
  }
  for (std::thread& job : jobs) {
    job.join();
  }
  for (const auto& of_job : errors) {
    CHECK(of_job == std::vector<std::string>(3));
  }
  CHECK(memory.size() == kNames.size());
}

TEST_CASE("a store is called by the thread that creates the communicator, and only meanwhile") {
  MemoryStore memory;
  const auto run_rank = [&memory](int32_t rank) {
    CountedStore counted(memory);
    const ho_store store = callbacks_of(counted, nullptr);
    const ho_comm_options options = options_of(store, rank, 2);
    ho_comm* comm = nullptr;
    must(ho_comm_create(&options, &comm));
    const int calls = counted.calls();
    check_splits(comm);
    ho_comm_destroy(comm);
    expect(calls >= 2, "rank 0 sets twice, the other waits and gets");
    expect(counted.calls() == calls, "nothing is called after ho_comm_create");
    expect(counted.of_other_threads() == 0, "only the creating thread calls");
  };
  auto second = std::async(std::launch::async, run_rank, 1);
  CHECK_NOTHROW(run_rank(0));
  CHECK_NOTHROW(second.get());
  CHECK(memory.get("horing/rank0"));
}

TEST_CASE(
    "the call's own deadline for the ranks to come is shorter or longer than the variable's") {
  MemoryStore memory;
  const ho_store store = callbacks_of(memory, nullptr);
  for (const int32_t rank : {0, 1}) {
    ho_comm_options options = options_of(store, rank, 2);
    options.rendezvous_timeout_ms = 200;  // the variable's is a minute
    ho_comm* comm = nullptr;
    CHECK(ho_comm_create(&options, &comm) == HO_TIMEOUT);
    CHECK(has(ho_last_error_message(), "the call"));
  }
  const ScopedVariable shorter("HORING_CONNECT_TIMEOUT_MS", "1000");
  MemoryStore another;
  const ho_store longer = callbacks_of(another, nullptr);
  const auto come = [&longer](int32_t rank, int32_t world_size) {
    ho_comm_options options = options_of(longer, rank, world_size);
    options.rendezvous_timeout_ms = 120'000;
    ho_comm* comm = nullptr;
    return ho_comm_create(&options, &comm);
  };
  auto first = std::async(std::launch::async, come, 0, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  // It still waits, and may not meet this one. With the right one, the variable's time would begin.
  CHECK(come(1, 3) == HO_MISMATCH);
  CHECK(first.get() == HO_MISMATCH);
}

TEST_CASE("a rank that is alone in its world leaves the store as it is") {
  const ScopedVariable key("HORING_JOB_KEY", "short");
  MemoryStore memory;
  CountedStore counted(memory);
  const ho_store store = callbacks_of(counted, "alone");
  const ho_comm_options options = options_of(store, 0, 1);
  ho_comm* comm = nullptr;
  must(ho_comm_create(&options, &comm));
  CHECK_NOTHROW(check_sum(comm));
  ho_comm_destroy(comm);
  CHECK(counted.calls() == 0);
}

TEST_CASE("a store that cannot be used is refused before the ranks find each other") {
  MemoryStore memory;
  ho_store store = callbacks_of(memory, "store");
  const auto refused = [&](const ho_comm_options& options, const std::string& said) {
    ho_comm* comm = nullptr;
    CHECK(ho_comm_create(&options, &comm) == HO_INVALID_ARGUMENT);
    CHECK(has(ho_last_error_message(), said));
    CHECK(comm == nullptr);
  };
  const ho_comm_options good = options_of(store, 1, 2);
  ho_comm_options options = good;
  options.rank = -1;
  refused(options, "give rank and world size");
  options = good;
  options.rendezvous = "tcp://127.0.0.1:1";
  refused(options, "a store and a rendezvous");
  options = good;
  options.job_key = "a key for tests only";
  refused(options, "a store and a job key");
  const std::string long_name(513, 'n');
  store.name = long_name.c_str();
  refused(good, "a store name of 513 bytes; it has 1 to 512");
  store.name = "";
  refused(good, "a store name of 0 bytes");
  store = callbacks_of(memory, "store");
  store.wait = nullptr;
  refused(good, "needs set, wait and get");
  store.size = 0;
  refused(good, "ho_store.size is 0");
  CHECK(memory.size() == 0);
}

TEST_CASE("what a store's callback says of its error is in the message, with its status") {
  ho_store store = HO_STORE_INIT;
  store.name = "a";
  store.set = [](void*, const char*, const void*, size_t) {
    ho_set_last_error_message("the disk is full");
    return HO_SYSTEM;
  };
  store.wait = [](void*, const char*, uint64_t) { return HO_OK; };
  store.get = [](void*, const char*, void*, size_t, size_t* bytes) {
    *bytes = size_t{1} << 40;
    return HO_OK;
  };
  ho_comm* comm = nullptr;
  ho_comm_options options = options_of(store, 0, 2);
  CHECK(ho_comm_create(&options, &comm) == HO_SYSTEM);
  CHECK(has(ho_last_error_message(),
            "rank 0: set of key \"a/rank0\" of the store failed (the disk is full)"));
  options.rank = 1;
  CHECK(ho_comm_create(&options, &comm) == HO_PROTOCOL);
  CHECK(has(ho_last_error_message(), "get of key \"a/rank0\" of the store failed (a value of "));
  store.wait = [](void*, const char*, uint64_t) { return HO_IN_PROGRESS; };
  CHECK(ho_comm_create(&options, &comm) == HO_INTERNAL);
  CHECK(has(ho_last_error_message(), "it returned 13, which is no error of ho_status"));
  store.wait = [](void*, const char*, uint64_t) { return HO_ABORTED; };
  CHECK(ho_comm_create(&options, &comm) == HO_ABORTED);
  CHECK(
      has(ho_last_error_message(), "rank 1: wait of key \"a/rank0\" of the store failed (aborted"));
}
