// What NCCL's collectives do with data, against libhoring's over host memory.
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "on_nccl.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kPart = 37;  // elements of each rank

struct DeviceBytes {
  void write(const std::vector<std::byte>& bytes) const {
    cuda_double::set_device_bytes(memory.address(), bytes);
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory.pointer()); }
  [[nodiscard]] std::vector<std::byte> read() const {
    return cuda_double::device_bytes(memory.address(), memory.size());
  }
  device::DeviceMemory memory;
};

void compare(const OnNccl& on, ho_comm* set, paro::Collectives& over, What what, DType dtype) {
  must_give_what_libhoring_gives(set, over, what, on.options(), dtype, kPart, [&](size_t bytes) {
    return DeviceBytes{on.memory(bytes)};
  });
}

}  // namespace

TEST_CASE("NCCL's collectives give what libhoring's give at each scope in every mode", "[sizes]") {
  using cuda_double::Mode;
  for (const Mode mode : {Mode::kEager, Mode::kRandom, Mode::kLazy}) {
    for (const int polls : {0, 3}) {
      INFO("mode " << static_cast<int>(mode) << ", in progress for " << polls << " polls");
      reset_doubles(mode, {.polls_to_make = polls, .polls_to_launch = polls});
      require_job({"2x2"}, [&](ho_comm* job) {
        const OnNccl on(job);
        for (const bool in_group : {false, true}) {
          ho_comm* const set = in_group ? on.group() : on.world();
          const auto over = on.over(set, in_group ? "the group" : "the world");
          for (const DType dtype : {DType::kInt32,
                                    DType::kUint8,
                                    DType::kFloat16,
                                    DType::kBfloat16,
                                    DType::kFloat32,
                                    DType::kFloat64}) {
            for (const What what : kEveryCollective) {
              compare(on, set, *over, what, dtype);
            }
          }
          for (const DType dtype : {DType::kFloat8E4m3, DType::kInt16}) {  // as bytes
            compare(on, set, *over, What::kGather, dtype);
            compare(on, set, *over, What::kBroadcast, dtype);
          }
        }
      });
      CHECK(left_on_doubles() == "");
    }
  }
}

TEST_CASE("collectives follow each other on a stream without the host between them") {
  reset_doubles(cuda_double::Mode::kRandom);
  require_job({"1x3"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats values(on, 100, 1.0F);
    std::array<paro::Pending, 5> pending;
    for (paro::Pending& each : pending) {
      must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 100, each));
    }
    for (paro::Pending& each : pending) {
      must_join(*over, each);
    }
    if (values.first() != 243.0F) {
      throw std::runtime_error("five sums of three are " + std::to_string(values.first()));
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a stream that is joined to a collective uses its result, and the host has not waited") {
  reset_doubles(cuda_double::Mode::kLazy);
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats values(on, 8, 2.0F);
    const DeviceFloats copy(on, 8);
    const auto current = must_have(device::CurrentContext::enter(on.device()));
    const device::Stream other = must_have(device::Stream::create(on.device()));
    paro::Pending pending;
    must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 8, pending));
    if (!must_have(over->join_stream(pending, other.handle(), 0))) {
      throw std::runtime_error("not joined");
    }
    must_be_ok(other.copy(copy.data(), values.data(), 8 * sizeof(float)));
    must_join(*over, pending);
    must_be_ok(on.device().check("", on.device().driver().stream_synchronize(other.handle())));
    if (copy.first() != 4.0F) {
      throw std::runtime_error("the other stream read " + std::to_string(copy.first()));
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a step's collectives make no events and wait for no device after the first step") {
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats values(on, 64, 0.0F);
    uint64_t before = 0;
    for (int step = 0; step < 20; ++step) {
      std::array<paro::Pending, 3> pending;
      for (paro::Pending& each : pending) {
        must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 64, each));
      }
      for (paro::Pending& each : pending) {
        must_join(*over, each);
      }
      must(ho_barrier(on.world(), nullptr, nullptr));
      const uint64_t now = cuda_double::calls("event_create") + cuda_double::synchronizing_calls();
      must(ho_barrier(on.world(), nullptr, nullptr));
      if (step > 0 && now != before) {
        throw std::runtime_error("step " + std::to_string(step) + " made " +
                                 std::to_string(now - before) + " events or waits");
      }
      before = now;
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a collective's time ends when it is over, not when it is joined") {
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats values(on, 64, 0.0F);
    const auto begun = Clock::now();
    paro::Pending pending;
    must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 64, pending));
    while (!over->over(pending)) {
      std::this_thread::yield();
    }
    const auto longest =
        static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - begun).count());
    while (Clock::now() < begun + std::chrono::nanoseconds(2 * longest)) {
      std::this_thread::yield();
    }
    must_join(*over, pending);
    if (pending.report.total_ns == 0 || pending.report.total_ns > longest) {
      throw std::runtime_error(std::to_string(pending.report.total_ns) + " ns of at most " +
                               std::to_string(longest));
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("communicators end, and collectives are over, while the watcher looks") {
  // Several looks, which nothing orders with what came before: for ThreadSanitizer.
  const auto let_watcher_look = [] {
    const auto until = Clock::now() + std::chrono::milliseconds(20);
    while (Clock::now() < until) {
      std::this_thread::yield();
    }
  };
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto gathers = on.over(on.world(), "gathers");
    auto sums = on.over(on.world(), "sums");
    const DeviceFloats values(on, 64, 0.0F);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    paro::Pending pending;
    must_be_ok(
        gathers->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 64, pending));
    sums.reset();
    let_watcher_look();
    must(ho_barrier(on.world(), nullptr, nullptr));
    nccl_double::let_go(0);
    while (!gathers->over(pending)) {
    }
    let_watcher_look();
    must_join(*gathers, pending);
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("the watcher asks about a collective once in its interval, however many are begun") {
  constexpr size_t kMany = 200;
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "the world");
    const DeviceFloats values(on, 64, 0.0F);
    nccl_double::hold(0);
    must(ho_barrier(on.world(), nullptr, nullptr));
    const auto begun = Clock::now();
    const uint64_t before = cuda_double::calls("event_query");
    std::vector<paro::Pending> pending(kMany);
    for (paro::Pending& each : pending) {
      must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, values.data(), 64, each));
    }
    must(ho_barrier(on.world(), nullptr, nullptr));
    const uint64_t queries = cuda_double::calls("event_query") - before;
    // Of both ranks, every 2 ms.
    const auto looks =
        static_cast<uint64_t>((Clock::now() - begun) / std::chrono::milliseconds(2)) + 2;
    must(ho_barrier(on.world(), nullptr, nullptr));
    nccl_double::let_go(0);
    for (paro::Pending& each : pending) {
      must_join(*over, each);
    }
    if (queries > 2 * kMany * looks) {
      throw std::runtime_error(std::to_string(queries) + " queries in " + std::to_string(looks) +
                               " looks");
    }
  });
  CHECK(left_on_doubles() == "");
}
