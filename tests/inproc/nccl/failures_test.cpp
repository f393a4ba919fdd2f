// Whatever fails in NCCL: every rank has one cause, in time, streams run on, and nothing is left.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "one_cause.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kFloats = 64;

void run_steps(const OnNccl& on, const DeviceFloats& all, int steps) {
  const auto over = on.over(on.world(), "the world");
  const auto ranks = static_cast<size_t>(ho_comm_world_size(on.world()));
  const std::vector<size_t> counts(ranks, kFloats / ranks);
  float* const mine = all.data() + counts[0] * static_cast<size_t>(ho_comm_rank(on.world()));
  const paro::CollectiveOptions options = on.options();
  constexpr DType kType = DType::kFloat32;
  const auto run = [&](const Status& begun, paro::Pending& pending) {
    must_be_ok(begun);
    must_join(*over, pending);
  };
  for (int step = 0; step < steps; ++step) {
    paro::Pending pending;
    run(over->begin_reduce_scatter(options, kType, all.data(), mine, counts, pending), pending);
    run(over->begin_all_gather(options, kType, mine, all.data(), counts, pending), pending);
    run(over->begin_all_reduce(options, kType, all.data(), kFloats, pending), pending);
    run(over->begin_broadcast(options, kType, all.data(), kFloats, 0, pending), pending);
  }
}

// A few steps, one of which may fail: the rank's cause. The stream must run on afterwards.
std::string cause_of_steps(const OnNccl& on) {
  const DeviceFloats all(on, kFloats, 1.0F);
  std::string error;
  try {
    run_steps(on, all, 3);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  on.finish();
  const Status status = on.rank().status();
  if (!error.empty() && status.ok()) {
    throw std::runtime_error("failed, and is well: " + error);
  }
  return status.message();
}

// As NCCL launches at once, or in a thread of its own.
nccl_double::Config launching(int polls) {
  nccl_double::Config config;
  config.polls_to_launch = polls;
  return config;
}
// Where all ranks have had collectives before.
nccl_double::Config connected(int polls) {
  nccl_double::Config config = launching(polls);
  config.first_ones_connect = false;
  return config;
}
constexpr int kNever = 100'000'000;
// Both. What NCCL does at once touches nothing that it does not touch in a thread of its own: under
// ThreadSanitizer the latter alone, in half the time.
const std::vector<int> kPolls = kThreadSanitizer ? std::vector{3} : std::vector{0, 3};

}  // namespace

TEST_CASE("a call of NCCL that fails anywhere is one cause on all ranks and leaves nothing") {
  const int polls = GENERATE(from_range(kPolls));
  const std::vector<std::string> making{"ncclGetUniqueId",
                                        "ncclCommInitRankConfig",
                                        "ncclCommGetAsyncError",
                                        "ncclCommCount",
                                        "ncclCommUserRank"};
  const std::vector<std::string> moving{
      "ncclReduceScatter", "ncclAllGather", "ncclAllReduce", "ncclBroadcast"};
  const auto fails = [&](const std::string& call, uint64_t k) {
    INFO(call << " #" << k);
    reset_doubles(cuda_double::Mode::kEager, launching(polls));
    nccl_double::fail_call(call, k, nccl::kSystemError);
    const std::string cause = one_cause("1x2", cause_of_steps);
    CHECK(has(cause, call));
    CHECK(has(cause, "unhandled system error"));
    CHECK(has(cause, "called abort"));
    CHECK(left_on_doubles() == "");
  };
  for (const std::string& call : making) {
    fails(call, 1);
  }
  fails("ncclCommInitRankConfig", 2);
  for (const std::string& call : moving) {
    fails(call, 1);
    fails(call, 4);
  }
}

TEST_CASE("a call of the driver that fails in a collective is one cause on all ranks") {
  const int polls = GENERATE(from_range(kPolls));
  for (const char* call : {"joint_work", "event_record", "event_query"}) {
    for (const uint64_t k : {1U, 3U}) {
      INFO(call << " #" << k);
      reset_doubles(cuda_double::Mode::kEager, launching(polls));
      std::atomic<int> ready = 0;
      const std::string cause = one_cause("1x2", [&](const OnNccl& on) {
        must(ho_barrier(on.world(), nullptr, nullptr));
        if (++ready == 2) {
          cuda_double::fail_call(call, k, device::kInvalidValue);
        }
        must(ho_barrier(on.world(), nullptr, nullptr));
        return cause_of_steps(on);
      });
      CHECK(has(cause, "called abort: the world: "));
      CHECK(left_on_doubles() == "");
    }
  }
}

TEST_CASE("a communicator that cannot be ended in order is aborted and leaves nothing") {
  for (const char* call : {"ncclCommFinalize", "ncclCommDestroy"}) {
    INFO(call);
    reset_doubles();
    nccl_double::fail_call(call, 1, nccl::kSystemError);
    require_job({"1x2"}, [](ho_comm* job) {
      const OnNccl on(job, kSoonMs);
      const auto over = on.over(on.world(), "the world");
      must(ho_barrier(on.world(), nullptr, nullptr));  // all have made theirs
    });
    CHECK(left_on_doubles() == "");
  }
}

TEST_CASE("an asynchronous error of one rank is the cause on all of them") {
  const int polls = GENERATE(from_range(kPolls));
  for (const auto mode : {cuda_double::Mode::kEager, cuda_double::Mode::kLazy}) {
    reset_doubles(mode, launching(polls));
    const std::string cause = one_cause("2x2", [](const OnNccl& on) {
      const auto over = on.over(on.world(), "the world");
      const DeviceFloats all(on, 8);
      if (on.device().ordinal() == 1) {
        nccl_double::hold(1);
      }
      must(ho_barrier(on.world(), nullptr, nullptr));
      paro::Pending pending;
      must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 8, pending));
      must(ho_barrier(on.world(), nullptr, nullptr));
      if (on.device().ordinal() == 1) {
        nccl_double::report_async_error(1, nccl::kSystemError);
      }
      const Status ended = over->join(pending, 0).status();
      on.finish();
      return ended.message();
    });
    CHECK(has(cause, "rank 1 called abort: the world: an asynchronous error of NCCL: unhandled"));
    CHECK(left_on_doubles() == "");
  }
}

TEST_CASE("an abort from another thread ends what is under way on all ranks") {
  const int polls = GENERATE(from_range(kPolls));
  reset_doubles(cuda_double::Mode::kEager, launching(polls));
  const std::string cause = one_cause("1x3", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats all(on, 8);
    nccl_double::hold(0);
    paro::Pending pending;
    must(ho_barrier(on.world(), nullptr, nullptr));
    must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 8, pending));
    std::thread other([&] {
      if (ho_comm_rank(on.world()) == 2) {
        static_cast<void>(ho_comm_abort(on.parent(), "the user has had enough"));
      }
    });
    const Status ended = over->join(pending, 0).status();
    other.join();
    on.finish();
    return ended.message();
  });
  CHECK(has(cause, "rank 2 called abort: the user has had enough"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a rank that does not come is found at the deadline, on itself too") {
  const int polls = GENERATE(from_range(kPolls));
  reset_doubles(cuda_double::Mode::kEager, connected(polls));
  const std::string cause = one_cause("1x3", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, 8);
    paro::Pending pending;
    if (ho_comm_rank(on.world()) != 1) {
      must_be_ok(
          over->begin_all_reduce(on.options(kSoonMs), DType::kFloat32, all.data(), 8, pending));
      const Status ended = over->join(pending, 0).status();
      on.finish();
      return ended.message();
    }
    Status status;
    while ((status = over->status()).ok()) {
      std::this_thread::yield();
    }
    return status.message();
  });
  CHECK(has(cause, "sums: ncclAllReduce, collective 1 there, of 8 float, has not ended within"));
  CHECK(has(cause, "a rank has not begun it"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a rank that does not come to a first collective is found at the deadline") {
  reset_doubles();
  const std::string cause = one_cause("1x3", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, 8);
    paro::Pending pending;
    if (ho_comm_rank(on.world()) == 1) {
      return failure_of(*over).message();
    }
    const Status begun =
        over->begin_all_reduce(on.options(kSoonMs), DType::kFloat32, all.data(), 8, pending);
    on.finish();
    return begun.message();
  });
  CHECK(has(cause, "sums: ncclAllReduce is in progress after its deadline: some rank has not"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("collectives of two communicators in different orders hang and are named") {
  const int polls = GENERATE(from_range(kPolls));
  for (const auto mode : {cuda_double::Mode::kEager, cuda_double::Mode::kRandom}) {
    reset_doubles(mode, connected(polls));
    const std::string cause = one_cause("1x2", [](const OnNccl& on) {
      const auto gathers = on.over(on.world(), "gathers");
      const auto sums = on.over(on.world(), "sums");
      const auto current = must_have(device::CurrentContext::enter(on.device()));
      const device::Stream other = must_have(device::Stream::create(on.device()));
      const DeviceFloats first(on, 8);
      const DeviceFloats second(on, 8);
      std::array<paro::Pending, 2> pending;
      const auto begin =
          [&](paro::Collectives& over, const DeviceFloats& all, void* stream, paro::Pending& each) {
            paro::CollectiveOptions options = on.options(kSoonMs);
            options.stream = stream;
            return over.begin_all_reduce(options, DType::kFloat32, all.data(), 8, each);
          };
      const bool turned = ho_comm_rank(on.world()) == 1;
      must_be_ok(begin(turned ? *sums : *gathers, first, on.stream(), pending[0]));
      must_be_ok(begin(turned ? *gathers : *sums, second, other.handle(), pending[1]));
      // One may end well: what it waits for is aborted on the other rank first.
      static_cast<void>((turned ? *sums : *gathers).join(pending[0], 0));
      static_cast<void>((turned ? *gathers : *sums).join(pending[1], 0));
      on.finish();
      on.finish(other.handle());
      return failure_of(*sums).message();
    });
    CHECK(has(cause, "began collectives of several communicators in another order"));
    const auto violations = nccl_double::take_violations();
    REQUIRE(violations.size() == 1);
    CHECK(has(violations[0], "is launched in another order on another device"));
    CHECK(has(violations[0], "of communicator 1: collective 1, all-reduce of 8 float"));
    CHECK(has(violations[0], "of communicator 2: collective 1"));
    CHECK(has(violations[0], " waits behind "));
    CHECK(left_on_doubles() == "");
  }
}

TEST_CASE("counts and types that differ between ranks hang and are named") {
  const int polls = GENERATE(from_range(kPolls));
  for (const bool types : {false, true}) {
    reset_doubles(cuda_double::Mode::kEager, launching(polls));
    const std::string cause = one_cause("1x2", [&](const OnNccl& on) {
      const auto over = on.over(on.world(), "the world");
      const DeviceFloats all(on, 8);
      const bool other = ho_comm_rank(on.world()) == 1;
      paro::Pending pending;
      must_be_ok(over->begin_all_reduce(on.options(kSoonMs),
                                        types && other ? DType::kInt32 : DType::kFloat32,
                                        all.data(),
                                        !types && other ? 7 : 8,
                                        pending));
      const Status ended = over->join(pending, 0).status();
      on.finish();
      return ended.message();
    });
    CHECK(has(cause, "began another one in its place"));
    const auto violations = nccl_double::take_violations();
    REQUIRE(violations.size() == 1);
    CHECK(has(violations[0], "collective 1, all-reduce of "));
    CHECK(has(violations[0], types ? "int32" : "of 7 float"));
    CHECK(left_on_doubles() == "");
  }
}

TEST_CASE("a rank that fails while communicators are made fails all that make them") {
  reset_doubles(cuda_double::Mode::kEager, {.polls_to_make = 1000000});
  const std::string cause = one_cause("1x3", [](const OnNccl& on) {
    try {
      if (ho_comm_rank(on.world()) == 2) {
        nccl_double::fail_call("ncclCommInitRankConfig", 1, nccl::kInvalidUsage);
      }
      must(ho_barrier(on.world(), nullptr, nullptr));
      static_cast<void>(on.over(on.world(), "the world"));
    } catch (const std::exception&) {
    }
    return on.rank().status().message();
  });
  CHECK(has(cause, "the world: ncclCommInitRankConfig: invalid usage"));
  CHECK(has(cause, "NCCL_HOSTID"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("what had ended before a failure is joined as ended") {
  const int polls = GENERATE(from_range(kPolls));
  reset_doubles(cuda_double::Mode::kEager, launching(polls));
  const std::string cause = one_cause("1x2", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats all(on, 8, 1.0F);
    paro::Pending well;
    must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 8, well));
    on.finish();
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (ho_comm_rank(on.world()) == 0) {
      static_cast<void>(ho_comm_abort(on.parent(), "enough"));
    }
    Status status;
    while ((status = over->status()).ok()) {
      std::this_thread::yield();
    }
    must_join(*over, well);
    paro::Pending late;
    const Status begun = over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 8, late);
    if (begun.message() != status.message()) {
      throw std::runtime_error("begun after a failure: " + begun.to_string());
    }
    return status.message();
  });
  CHECK(has(cause, "enough"));
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a launch that does not end is ended by its deadline, an abort and an error of NCCL") {
  enum class By { kDeadline, kAbort, kError };
  for (const By by : {By::kDeadline, By::kAbort, By::kError}) {
    INFO("by " << static_cast<int>(by));
    reset_doubles(cuda_double::Mode::kEager, launching(kNever));
    const std::string cause = one_cause("1x2", [&](const OnNccl& on) {
      const auto over = on.over(on.world(), "sums");
      const DeviceFloats all(on, 8);
      must(ho_barrier(on.world(), nullptr, nullptr));
      std::thread other([&] {
        if (ho_comm_rank(on.world()) == 1 && by == By::kAbort) {
          while (nccl_double::calls("ncclAllReduce") == 0) {
            std::this_thread::yield();
          }
          static_cast<void>(ho_comm_abort(on.parent(), "enough"));
        } else if (ho_comm_rank(on.world()) == 1 && by == By::kError) {
          while (nccl_double::calls("ncclAllReduce") == 0) {
            std::this_thread::yield();
          }
          nccl_double::report_async_error(1, nccl::kSystemError);
        }
      });
      paro::Pending pending;
      const uint64_t timeout_ms = by == By::kDeadline ? kSoonMs : 0;
      const Status begun =
          over->begin_all_reduce(on.options(timeout_ms), DType::kFloat32, all.data(), 8, pending);
      other.join();
      on.finish();
      return begun.message();
    });
    CHECK(has(cause,
              by == By::kDeadline ? "sums: ncclAllReduce is in progress after its deadline"
              : by == By::kAbort  ? "enough"
                                  : "unhandled system error"));
    CHECK(left_on_doubles() == "");
  }
}
