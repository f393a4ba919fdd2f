// To abort or destroy a communicator of NCCL may wait for the device: for other communicators'
// work, and for anybody's. Nobody else waits with it, and nobody waits for what would end only
// later.
#include <array>
#include <atomic>
#include <functional>
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
  CHECK(times_in(said, "sums: ncclCommAbort has not returned within 2000 ms") == 2);  // ranks
}

TEST_CASE("a communicator whose destruction never returns is left behind at the deadline") {
  const std::string said = said_where_ends_never_return([](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    must(ho_barrier(on.world(), nullptr, nullptr));  // all have made theirs
  });
  INFO(said);
  CHECK(times_in(said, "sums: ncclCommDestroy has not returned within 2000 ms") == 2);  // ranks
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

namespace {

// What device 1 does before NCCL's call that makes a communicator returns there.
std::function<void()> before_init_returns;

nccl::ResultCode init_that_takes_long(
    nccl::CommHandle* handle, int ranks, nccl::UniqueId id, int rank, nccl::Config* config) {
  const nccl::ResultCode result = nccl_double::nccl().comm_init(handle, ranks, id, rank, config);
  if (cuda_double::current_device() == 1 && before_init_returns) {
    before_init_returns();
  }
  return result;
}

}  // namespace

TEST_CASE("a communicator that NCCL gives when all others have been aborted is aborted too") {
  reset_doubles();
  static nccl::Nccl table = nccl_double::nccl();
  table.comm_init = init_that_takes_long;
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job, 60000, -1, cuda_double::driver(), table);
    const auto sums = on.over(on.world(), "sums");
    const DeviceFloats all(on, kFloats);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    paro::Pending pending;
    must_be_ok(sums->begin_all_reduce(on.options(), kType, all.data(), kFloats, pending));
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 1) {
      before_init_returns = [&] {
        static_cast<void>(ho_comm_abort(on.parent(), "enough"));
        must_fail(sums->join(pending, 0), failure_of(*sums));  // all aborts are over then
      };
    }
    static_cast<void>(on.rank().over(on.world(), "gathers"));
    if (ho_comm_rank(on.world()) == 0) {
      must_fail(sums->join(pending, 0), failure_of(*sums));
    }
    on.finish();
  });
  before_init_returns = nullptr;
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

namespace {

// A driver of which calls block, as the real one's may while its queues are full.
struct Blocking {
  std::atomic<bool> queries = false;
  std::atomic<bool> records = false;  // of the rank of device 0
  std::atomic<bool> gave_up = false;
};
Blocking blocking;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): calls know none

void wait_while(const std::atomic<bool>& blocks) {
  const auto give_up_at = Clock::now() + std::chrono::seconds(30);
  while (blocks && !blocking.gave_up) {
    std::this_thread::yield();
    blocking.gave_up = blocking.gave_up || Clock::now() > give_up_at;
  }
}

const device::Driver& blocking_driver() {
  static const device::Driver kTable = [] {
    device::Driver table = cuda_double::driver();
    table.event_query = [](device::EventHandle event) {
      wait_while(blocking.queries);
      return cuda_double::driver().event_query(event);
    };
    table.event_record = [](device::EventHandle event, device::StreamHandle stream) {
      if (cuda_double::current_device() == 0) {
        wait_while(blocking.records);
      }
      return cuda_double::driver().event_record(event, stream);
    };
    return table;
  }();
  return kTable;
}

// Two ranks on it: their causes.
std::vector<std::string> causes_while_blocking(const std::function<Status(const OnNccl&)>& body) {
  reset_doubles();
  nccl_double::hold(0);
  std::mutex mutex;
  std::vector<std::string> causes;
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job, 60000, ho_comm_rank(job), blocking_driver());
    const Status cause = body(on);
    const std::lock_guard lock(mutex);
    causes.push_back(cause.message());
  });
  CHECK_FALSE(blocking.gave_up.exchange(false));
  CHECK(left_on_doubles() == "");
  return causes;
}

}  // namespace

TEST_CASE("a deadline holds while the driver answers nobody who asks") {
  const auto causes = causes_while_blocking([](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, kFloats);
    paro::Pending pending;
    must_be_ok(over->begin_all_reduce(on.options(kSoonMs), kType, all.data(), kFloats, pending));
    blocking.queries = true;
    const Status failure = failure_of(*over);
    // Whether it had ended before is not known yet: no stream may come after it.
    must_fail(over->join_stream(pending, on.options().stream, 0), failure);
    blocking.queries = false;
    must_fail(over->join(pending, 0), failure);
    on.finish();
    return failure;
  });
  REQUIRE(causes.size() == 2);
  CHECK(causes[0] == causes[1]);
  CHECK(
      has(causes[0], "sums: ncclAllReduce, collective 1 there, of 8 float, has not ended within"));
}

TEST_CASE("a collective whose beginning blocks in the driver is found at its deadline") {
  const auto causes = causes_while_blocking([](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, kFloats);
    paro::Pending pending;
    if (on.device().ordinal() == 1) {
      must_be_ok(over->begin_all_reduce(on.options(), kType, all.data(), kFloats, pending));
      const Status failure = failure_of(*over);
      blocking.records = false;
      must_fail(over->join(pending, 0), failure);
      on.finish();
      return failure;
    }
    blocking.records = true;
    const Status begun =
        over->begin_all_reduce(on.options(kSoonMs), kType, all.data(), kFloats, pending);
    const Status ended = begun.ok() ? over->join(pending, 0).status() : begun;
    on.finish();
    return ended;
  });
  REQUIRE(causes.size() == 2);
  CHECK(causes[0] == causes[1]);
  CHECK(has(causes[0], "sums: ncclAllReduce is in progress after its deadline"));
}

TEST_CASE("communicators that are ended one after the other have one deadline together") {
  // Else the other rank fails the job, which ends them all.
  reset_doubles(cuda_double::Mode::kEager, {.aborts_reach_peers = false});
  std::atomic<bool> ended = false;
  std::atomic<uint64_t> polls = 0;
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job, kSoonMs);
    std::vector<std::unique_ptr<paro::NcclCollectives>> all;
    for (const char* name : {"gathers", "reductions", "sums"}) {
      all.push_back(on.over(on.world(), name));
    }
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 1) {  // comes to no end until the other has given up
      while (!ended) {
        std::this_thread::yield();
      }
      return;
    }
    all.pop_back();
    const uint64_t before = nccl_double::calls("ncclCommFinalize");
    const uint64_t polled = nccl_double::calls("ncclCommGetAsyncError");
    all.clear();
    polls = nccl_double::calls("ncclCommGetAsyncError") - polled;
    ended = true;
    if (nccl_double::calls("ncclCommFinalize") < before + 2) {
      throw std::runtime_error("not finalized");
    }
  });
  // Theirs and the watching threads', not those of a time that is waited through.
  CHECK(polls < 100);
  CHECK(left_on_doubles() == "");
}
