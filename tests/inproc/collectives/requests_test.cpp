// A wait that is given a time has two outcomes without success: the operation is not over and the
// request valid, or the operation's own deadline has passed and the request is gone.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <horing/communicator.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "job.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kLongMs = 120'000;

void ensure(bool kept, const char* promise) {
  if (!kept) {
    throw std::runtime_error(std::string(promise) + "; last message: " + ho_last_error_message());
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The peer enters nothing before `over` is set.
void stay_away(const std::shared_future<void>& over) {
  ensure(over.wait_for(std::chrono::minutes(2)) == std::future_status::ready, "the other is done");
}

ho_request* start_one(ho_comm* comm, float& value, uint64_t timeout_ms, bool foreground = false) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  options.foreground = foreground ? 1 : 0;
  ho_request* request = nullptr;
  must(ho_all_reduce(comm, &value, &value, 1, HO_FLOAT32, HO_SUM, &options, nullptr, &request));
  return request;
}

// A thread that was joined is still listed for a moment, as one that exits.
bool exits(const std::filesystem::path& task) {
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of Linux
  std::string text;
  std::getline(std::ifstream(task / "stat"), text);
  // What follows the name, which may have any characters: state, five numbers, flags.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int i = 0; i < 6; ++i) {
    fields >> skipped;
  }
  uint64_t flags = kExiting;  // where it is gone meanwhile
  fields >> flags;
  return (flags & kExiting) != 0;
}

size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::count_if(
      begin(tasks), end(tasks), [](const auto& task) { return !exits(task.path()); }));
}

}  // namespace

TEST_CASE("a request in the foreground moves while it is waited for, and makes no thread") {
  for (const bool foreground : {true, false}) {
    std::atomic<size_t> before = 0;
    std::atomic<size_t> after = 0;
    require_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
      must(ho_barrier(comm, nullptr, nullptr));
      if (ho_comm_rank(comm) == 0) {
        before = threads_of_process();
      }
      must(ho_barrier(comm, nullptr, nullptr));
      float value = 1;
      must(ho_request_wait(start_one(comm, value, 0, foreground), 0));
      ensure(value == 2, "sums up");
      if (ho_comm_rank(comm) == 0) {
        after = threads_of_process();
      }
      must(ho_barrier(comm, nullptr, nullptr));
    });
    CHECK((after == before) == foreground);
  }
}

TEST_CASE("a request that is not over is in progress, stays valid and can complete") {
  std::promise<void> tried;
  const std::shared_future<void> over(tried.get_future());
  require_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
    float value = 1;
    if (ho_comm_rank(comm) == 1) {
      stay_away(over);
      must(ho_request_wait(start_one(comm, value, 0), 0));
    } else {
      ho_request* request = start_one(comm, value, 0);
      const ho_status first = ho_request_wait(request, 1);
      const std::string said = ho_last_error_message();
      const ho_status second = ho_request_wait(request, 1);
      tried.set_value();
      ensure(first == HO_IN_PROGRESS && second == HO_IN_PROGRESS, "in progress");
      ensure(said.empty(), "no error");
      must(ho_request_wait(request, kLongMs));
    }
    ensure(value == 2, "sums up");
  });
}

TEST_CASE("a request whose own deadline passes within the wait is a timeout, and over") {
  std::promise<void> ended;
  const std::shared_future<void> over(ended.get_future());
  const auto errors = run_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
    float value = 1;
    if (ho_comm_rank(comm) == 1) {
      stay_away(over);
      return;
    }
    const ho_status status = ho_request_wait(start_one(comm, value, 200), kLongMs);
    const std::string said = ho_last_error_message();
    ended.set_value();
    ensure(status == HO_TIMEOUT && contains(said, "did not complete within 200 ms"), "a timeout");
  });
  CHECK(errors == std::vector<std::string>(2));
}

// The first thread moves both operations until its own has ended; nobody else moves the other one.
TEST_CASE("two threads wait for requests in the foreground, and the second is woken in time") {
  std::promise<void> first_ended;
  const std::shared_future<void> over(first_ended.get_future());
  require_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
    float value = 1;
    std::array<float, 2> gathered{};
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.foreground = 1;
    const auto gather = [&] {
      ho_request* request = nullptr;
      must(
          ho_all_gather(comm, &value, gathered.data(), 1, HO_FLOAT32, &options, nullptr, &request));
      return request;
    };
    if (ho_comm_rank(comm) == 1) {
      // Both threads over there should be waiting by then; where they are not, nothing is proved.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      must(ho_request_wait(gather(), 0));
      stay_away(over);
      must(ho_request_wait(start_one(comm, value, 0, true), 0));
      return;
    }
    ho_request* first = gather();
    ho_request* second = start_one(comm, value, 0, true);
    std::future<ho_status> other =
        std::async(std::launch::async, [&] { return ho_request_wait(second, 0); });
    must(ho_request_wait(first, 0));
    first_ended.set_value();
    ensure(other.wait_for(std::chrono::minutes(2)) == std::future_status::ready, "is woken");
    must(other.get());
    ensure(value == 2 && gathered[1] == 1, "both are right");
  });
}

TEST_CASE("C++: wait_for says false while the operation goes on, and throws its own deadline") {
  std::promise<void> tried;
  std::promise<void> ended;
  const std::shared_future<void> first_over(tried.get_future());
  const std::shared_future<void> over(ended.get_future());
  const auto errors = run_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
    float value = 1;
    if (ho_comm_rank(comm) == 1) {
      stay_away(first_over);
      must(ho_request_wait(start_one(comm, value, 0), 0));
      stay_away(over);
      return;
    }
    horing::Request goes_on(start_one(comm, value, kLongMs));
    const bool early = goes_on.wait_for(std::chrono::milliseconds(1));
    const bool valid = goes_on.pending();
    tried.set_value();
    goes_on.wait();
    horing::Request late(start_one(comm, value, 200));
    ho_status status = HO_OK;
    try {
      (void)late.wait_for(std::chrono::milliseconds(kLongMs));
    } catch (const horing::Error& error) {
      status = error.status();
    }
    ended.set_value();
    ensure(!early && valid, "goes on");
    ensure(status == HO_TIMEOUT, "throws the timeout");
    ensure(!late.pending(), "has ended the request");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("in progress has a name") {
  CHECK(std::string(ho_status_name(HO_IN_PROGRESS)) == "in progress");
  CHECK(std::string(ho_status_name(HO_INTERNAL)) == "internal error");
}
