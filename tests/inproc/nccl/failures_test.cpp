// Whatever fails in NCCL: every rank has one cause, in time, streams run on, and nothing is left.
#include <algorithm>
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

// A few steps, in which something fails: the rank's cause. The stream must run on afterwards.
std::string cause_of_steps(const OnNccl& on) {
  const DeviceFloats all(on, kFloats, 1.0F);
  std::string error;
  try {
    run_steps(on, all, 3);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  on.finish();
  // The watching thread may have found it, after the last step.
  const Status status = failure_of(on.rank());
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

TEST_CASE("a call of the driver that fails anywhere in a step is one cause on all ranks") {
  for (const char* call : {"context_push",
                           "stream_context",
                           "stream_capturing",
                           "pointer_attribute",
                           "address_range",
                           "event_create",
                           "event_record",
                           "joint_work",
                           "stream_wait_event"}) {
    // Of a step without a failure first: how many there are.
    uint64_t calls = 1;
    for (uint64_t k = 0; k <= calls; k += k == 0 ? 1 : std::max<uint64_t>(1, calls / 3)) {
      INFO(call << " #" << k);
      reset_doubles(cuda_double::Mode::kEager, connected(0));
      std::array<std::atomic<int>, 2> came{};
      std::atomic<uint64_t> in_step = 0;
      const std::string cause = one_cause("1x2", [&](const OnNccl& on) {
        const auto over = on.over(on.world(), "sums");
        const DeviceFloats all(on, kFloats, 1.0F);
        must(ho_barrier(on.world(), nullptr, nullptr));
        if (came[0]++ == 0) {
          in_step = cuda_double::calls(call);
          if (k > 0) {
            cuda_double::fail_call(call, k, device::kInvalidContext);
          }
        }
        must(ho_barrier(on.world(), nullptr, nullptr));
        for (int step = 0; step < 2 && on.rank().status().ok(); ++step) {
          paro::Pending pending;
          static_cast<void>(
              over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), kFloats, pending));
          static_cast<void>(over->join_stream(pending, on.stream(), 0));
          static_cast<void>(over->join(pending, 0));
        }
        if (k > 0) {
          static_cast<void>(failure_of(*over));
        } else {
          must(ho_barrier(on.world(), nullptr, nullptr));
          if (came[1]++ == 0) {
            in_step = cuda_double::calls(call) - in_step;
          }
          must(ho_barrier(on.world(), nullptr, nullptr));
        }
        on.finish();
        return on.rank().status().message();
      });
      if (k == 0) {
        // What asks until something is over asks now more often, now less.
        calls = call == std::string_view("context_push") ? 8 : in_step.load();
        CHECK(cause == "");
        CHECK(calls > 0);
      } else {
        CHECK(has(cause, "called abort: sums: "));
        CHECK(has(cause,
                  call == std::string_view("joint_work") ? "ncclAllReduce: unhandled cuda"
                                                         : "CUDA_ERROR_INVALID_CONTEXT"));
      }
      CHECK(left_on_doubles() == "");
    }
  }
}

TEST_CASE("of a peer that NCCL has lost libhoring says which it was") {
  reset_doubles();
  const std::string cause = one_cause("1x2", [](const OnNccl& on) {
    const auto over = on.over(on.world(), "sums");
    must(ho_barrier(on.world(), nullptr, nullptr));
    if (on.device().ordinal() == 0) {
      nccl_double::report_async_error(0, nccl::kRemoteError);
    } else {
      const uint64_t before = nccl_double::calls("ncclCommGetAsyncError");
      while (nccl_double::calls("ncclCommGetAsyncError") < before + 4) {  // seen
        std::this_thread::yield();
      }
      static_cast<void>(ho_comm_abort(on.parent(), "the process of rank 7 has ended"));
    }
    return failure_of(*over).message();
  });
  CHECK(has(cause, "rank 7 has ended"));
  CHECK(left_on_doubles() == "");
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
