// To abort or destroy a communicator of NCCL may wait for the device: for other communicators'
// work, and for anybody's. Nobody else waits with it, and nobody waits for what would end only
// later.
#include <array>
#include <mutex>
#include <thread>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "has.hpp"
#include "one_cause.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr DType kType = DType::kFloat32;
constexpr size_t kFloats = 8;

void reset_with_ends_that_wait() {
  reset_doubles(cuda_double::Mode::kEager, {.ends_wait_for_device = true});
}

void must_fail(const Result<bool>& result, const Status& cause) {
  if (result.ok() || result.status().message() != cause.message()) {
    throw std::runtime_error("ended otherwise than by the cause: " + result.status().to_string());
  }
}

// Somebody else's on the device, which no abort here ends.
class OthersWork {
 public:
  OthersWork(const OnNccl& on, device::StreamHandle stream) : device_(on.device().ordinal()) {
    std::string circle;
    static_cast<void>(work_.enqueue(stream, "somebody else's", {}, circle));
  }
  OthersWork(const OthersWork&) = delete;
  OthersWork& operator=(const OthersWork&) = delete;
  ~OthersWork() { end(); }
  void end() { work_.give_up(device_); }

 private:
  int device_;
  cuda_double::JointWork work_{2, [](const cuda_double::Translate&) {}};
};

// Two ranks for which no end returns; what their processes have said when all of theirs is gone but
// the threads that are in NCCL.
std::string said_where_ends_never_return(const std::function<void(const OnNccl&)>& body) {
  reset_doubles(cuda_double::Mode::kEager, {.ends_return = false});
  std::mutex mutex;
  std::vector<std::shared_ptr<const device::Device>> devices;
  CaughtStderr caught;
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job, 2000);
    body(on);
    const std::lock_guard lock(mutex);
    devices.push_back(on.device().shared_from_this());
  });
  std::string text = caught.end();
  nccl_double::let_ends_return();
  while (!devices.empty()) {
    while (devices.back().use_count() > 1) {  // a thread has it
      std::this_thread::yield();
    }
    devices.pop_back();
  }
  CHECK(left_on_doubles() == "");
  return text;
}

size_t times_in(const std::string& text, std::string_view words) {
  size_t times = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    ++times;
  }
  return times;
}

}  // namespace

TEST_CASE("aborts that never return hold up nobody beyond the deadline, and the log says so once") {
  const std::string said = said_where_ends_never_return([](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, kFloats);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    paro::Pending pending;
    must_be_ok(over->begin_all_reduce(on.options(), kType, all.data(), kFloats, pending));
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 1) {
      static_cast<void>(ho_comm_abort(on.parent(), "enough"));
    }
    must_fail(over->join(pending, 0), failure_of(*over));
    on.finish();
  });
  INFO(said);
  CHECK(times_in(said, "sums: ncclCommAbort has not returned after 2000 ms") == 2);  // ranks
}

TEST_CASE("a communicator whose destruction never returns is left behind at the deadline") {
  const std::string said = said_where_ends_never_return([](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    must(ho_barrier(on.world(), nullptr, nullptr));  // all have made theirs
  });
  INFO(said);
  CHECK(times_in(said, "sums: ncclCommDestroy has not returned after 2000 ms") == 2);  // ranks
}

TEST_CASE("a failure ends the collectives of all communicators that are under way") {
  reset_with_ends_that_wait();
  const std::string cause = one_cause("1x2", [](const OnNccl& on) {
    const auto gathers = on.over(on.world(), "gathers");
    const auto sums = on.over(on.world(), "sums");
    const auto current = must_have(device::CurrentContext::enter(on.device()));
    const device::Stream other = must_have(device::Stream::create(on.device()));
    const DeviceFloats first(on, kFloats);
    const DeviceFloats second(on, kFloats);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    std::array<paro::Pending, 2> pending;
    paro::CollectiveOptions options = on.options();
    must_be_ok(gathers->begin_all_reduce(options, kType, first.data(), kFloats, pending[0]));
    options.stream = other.handle();
    must_be_ok(sums->begin_all_reduce(options, kType, second.data(), kFloats, pending[1]));
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 1) {
      static_cast<void>(ho_comm_abort(on.parent(), "enough"));
    }
    const Status failure = failure_of(*sums);
    must_fail(sums->join(pending[1], 0), failure);
    must_fail(gathers->join(pending[0], 0), failure);
    on.finish();
    on.finish(other.handle());
    return failure.message();
  });
  CHECK(has(cause, "enough"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a deadline holds while another communicator is destroyed") {
  reset_with_ends_that_wait();
  const std::string cause = one_cause("1x2", [](const OnNccl& on) {
    const auto gathers = on.over(on.world(), "gathers");
    auto sums = on.over(on.world(), "sums");
    const DeviceFloats all(on, kFloats);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    paro::Pending pending;
    must_be_ok(gathers->begin_all_reduce(on.options(kSoonMs), kType, all.data(), kFloats, pending));
    sums.reset();
    const Status failure = failure_of(*gathers);
    must_fail(gathers->join(pending, 0), failure);
    on.finish();
    return failure.message();
  });
  CHECK(has(cause, "gathers: ncclAllReduce, collective 1 there, of 8 float, has not ended within"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("while communicators are aborted nobody else waits, and no buffer is given back") {
  reset_with_ends_that_wait();
  const std::string cause = one_cause("1x2", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "the world");
    const auto current = must_have(device::CurrentContext::enter(on.device()));
    const device::Stream other = must_have(device::Stream::create(on.device()));
    const DeviceFloats all(on, kFloats);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    paro::Pending pending;
    must_be_ok(over->begin_all_reduce(on.options(), kType, all.data(), kFloats, pending));
    OthersWork others(on, other.handle());
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 1) {
      static_cast<void>(ho_comm_abort(on.parent(), "enough"));
    }
    const Status failure = failure_of(*over);
    if (over->over(pending) || must_have(over->join(pending, 1))) {
      throw std::runtime_error("over before the abort was");
    }
    must_fail(over->join_stream(pending, other.handle(), 0), failure);
    paro::Pending late;
    must_fail(over->begin_all_reduce(on.options(), kType, all.data(), kFloats, late), failure);
    others.end();
    must_fail(over->join(pending, 0), failure);
    on.finish();
    on.finish(other.handle());
    return failure.message();
  });
  CHECK(has(cause, "enough"));
  CHECK(left_on_doubles() == "");
}
