// A wait that is given a time has two outcomes without success: the operation is not over and the
// request valid, or the operation's own deadline has passed and the request is gone.
#include <chrono>
#include <future>
#include <horing/communicator.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kLongMs = 60'000;

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
  ensure(over.wait_for(std::chrono::minutes(1)) == std::future_status::ready, "the other is done");
}

ho_request* start_one(ho_comm* comm, float& value, uint64_t timeout_ms) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  ho_request* request = nullptr;
  must(ho_all_reduce(comm, &value, &value, 1, HO_FLOAT32, HO_SUM, &options, nullptr, &request));
  return request;
}

}  // namespace

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

TEST_CASE("C++: wait_for says false while the operation goes on, and throws its own deadline") {
  std::promise<void> ended;
  const std::shared_future<void> over(ended.get_future());
  const auto errors = run_job({"1x2", false, kLongMs}, [&](ho_comm* comm) {
    float value = 1;
    if (ho_comm_rank(comm) == 1) {
      stay_away(over);
      return;
    }
    horing::Request request(start_one(comm, value, 1000));
    const bool early = request.wait_for(std::chrono::milliseconds(1));
    const bool valid = request.pending();
    ho_status status = HO_OK;
    try {
      (void)request.wait_for(std::chrono::milliseconds(kLongMs));
    } catch (const horing::Error& error) {
      status = error.status();
    }
    ended.set_value();
    ensure(!early && valid, "goes on");
    ensure(status == HO_TIMEOUT, "throws the timeout");
    ensure(!request.pending(), "has ended the request");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("in progress has a name") {
  CHECK(std::string(ho_status_name(HO_IN_PROGRESS)) == "in progress");
  CHECK(std::string(ho_status_name(HO_INTERNAL)) == "internal error");
}
