// What a communicator's device work gives the driver, and what it tells its engine, in virtual
// time: how many starts there are, and when it wakes.
#include "device/work/work.hpp"

#include <poll.h>

#include <array>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "must_have.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kPiece = 1000;  // bytes, and nanoseconds on the bus

constexpr size_t kPieces = 8;

std::unique_ptr<device::Work> make_work(const cuda_double::HostTimes& times) {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kTimed;
  config.host_times = times;
  cuda_double::reset(config);
  return must_have(
      device::Work::create(must_have(device::Device::open(*must_have(device::driver()), 0))));
}

// Copies to the device, and within it.
struct Copies {
  explicit Copies(const cuda_double::HostTimes& times = {})
      : work(make_work(times)),
        memory(must_have(work->take_device(2 * kPieces * kPiece))),
        from(must_have(work->take_pinned(kPieces * kPiece))) {
    cuda_double::forget_counts();
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    cuda_double::advance(INT64_MAX / 2);
    must_be_ok(work->drain(Deadline::max()));
  }
  [[nodiscard]] std::byte* at(size_t piece) const {
    return static_cast<std::byte*>(memory.pointer()) + piece * kPiece;
  }
  // Over the bus, started at once where the device has not enough to do.
  device::Ticket start() {
    const std::array range{device::CopyRange{
        at(input % kPieces), from.bytes().data() + input % kPieces * kPiece, kPiece}};
    ++input;
    const device::Ticket ticket = *must_have(work->copy(device::Direction::kArrives, range));
    must_be_ok(work->start());
    return ticket;
  }
  // Within the device.
  device::Ticket give(size_t bytes = kPiece) {
    const size_t piece = input++ % kPieces;
    const std::array range{device::CopyRange{at(piece), at(kPieces + piece), bytes}};
    return *must_have(work->copy(device::Direction::kArrivesInside, range));
  }
  [[nodiscard]] bool completed(const device::Ticket& ticket) const {
    (void)must_have(work->look());
    return work->completed(ticket);
  }
  [[nodiscard]] bool woken() const {
    pollfd ready{work->wait_fd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }
  std::unique_ptr<device::Work> work;
  device::DeviceMemory memory;
  device::PinnedMemory from;
  size_t input = 0;
};

uint64_t starts() {
  return cuda_double::calls("launch") + cuda_double::calls("copy_async");
}

}  // namespace

TEST_CASE("the engine is woken when the oldest piece has completed, and again for the next") {
  Copies copies;
  const device::Ticket first = copies.start();
  const device::Ticket second = copies.start();
  must_be_ok(copies.work->wake_when_completed());
  // Behind no wake-up, and not started before the first has completed.
  const device::Ticket third = copies.start();
  CHECK(starts() == 2);
  CHECK_FALSE(copies.woken());
  int64_t ends = 0;
  for (const device::Ticket& piece : {first, second, third}) {
    ends += int64_t{kPiece};
    cuda_double::advance(ends - 1);
    CHECK_FALSE(copies.woken());
    cuda_double::advance(ends);
    CHECK(copies.woken());
    copies.work->clear_wake();
    CHECK(copies.completed(piece));
    must_be_ok(copies.work->start());
    must_be_ok(copies.work->wake_when_completed());
  }
  cuda_double::advance(10 * ends);
  CHECK_FALSE(copies.woken());  // nothing is under way
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("a wake-up that is asked for twice comes once") {
  Copies copies;
  const device::Ticket piece = copies.start();
  cuda_double::forget_counts();
  for (int i = 0; i < 3; ++i) {
    must_be_ok(copies.work->wake_when_completed());
  }
  CHECK(cuda_double::calls("stream_host_function") == 1);
  cuda_double::advance(kPiece);
  CHECK(copies.woken());
  CHECK(copies.completed(piece));
}

TEST_CASE("without the wait for the oldest piece the engine would be woken at once") {
  Copies copies;
  copies.start();
  cuda_double::drop_wait(1);
  must_be_ok(copies.work->wake_when_completed());
  CHECK(copies.woken());
}

TEST_CASE("what is given together is one start, and completes together") {
  Copies copies;
  constexpr device::Direction kInside = device::Direction::kArrivesInside;
  std::vector<device::Ticket> tickets;
  while (must_have(copies.work->may_start(kInside))) {
    tickets.push_back(copies.give());
  }
  CHECK(tickets.size() == 4);  // more wait for the next start
  CHECK_FALSE(must_have(copies.work->copy(kInside, {})));
  CHECK(starts() == 0);
  must_be_ok(copies.work->start());
  CHECK(cuda_double::calls("launch") == 1);
  CHECK(cuda_double::calls("copy_async") == 0);
  CHECK(cuda_double::calls("event_record") == 1);
  CHECK(must_have(copies.work->may_start(kInside)));
  cuda_double::advance(static_cast<int64_t>(tickets.size() * kPiece - 1));
  CHECK_FALSE(copies.completed(tickets.front()));
  cuda_double::advance(static_cast<int64_t>(tickets.size() * kPiece));
  for (const device::Ticket& ticket : tickets) {
    CHECK(copies.completed(ticket));
  }
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("what is given while two starts are under way waits for the next") {
  Copies copies;
  const device::Ticket first = copies.give();
  must_be_ok(copies.work->start());
  const device::Ticket second = copies.give();
  must_be_ok(copies.work->start());
  const device::Ticket third = copies.give();
  must_be_ok(copies.work->start());
  const device::Ticket fourth = copies.give();
  must_be_ok(copies.work->start());
  CHECK_FALSE(copies.completed(fourth));
  CHECK(starts() == 2);
  CHECK(copies.work->pending());
  cuda_double::advance(kPiece);
  CHECK(copies.completed(first));
  CHECK(starts() == 2);  // the second is under way
  must_be_ok(copies.work->start());
  CHECK(starts() == 3);
  cuda_double::advance(2 * kPiece);
  CHECK(copies.completed(second));
  CHECK_FALSE(copies.completed(third));
  cuda_double::advance(4 * kPiece);
  CHECK(copies.completed(third));
  CHECK(copies.completed(fourth));
  CHECK_FALSE(copies.work->pending());
}

TEST_CASE("what has completed before the engine sleeps wakes it at once") {
  Copies copies;
  const device::Ticket piece = copies.start();
  cuda_double::advance(kPiece);
  must_be_ok(copies.work->wake_when_completed());
  CHECK(copies.woken());
  CHECK(copies.work->completed(piece));
}

TEST_CASE("copies of no bytes are no start") {
  Copies copies;
  CHECK(copies.completed(copies.give(0)));
  const device::Ticket piece = copies.give();
  CHECK_FALSE(copies.completed(copies.give(0)));  // not before what was given earlier
  must_be_ok(copies.work->start());
  CHECK(starts() == 1);
  CHECK(cuda_double::calls("event_record") == 1);
  cuda_double::advance(kPiece);
  CHECK(copies.completed(piece));
}

TEST_CASE("sums of one kind are one start, and those of another a second one") {
  Copies copies;
  const auto sum = [&](size_t piece) {
    return device::Sum{copies.at(piece), copies.at(piece), copies.at(kPieces + piece), 100, 1};
  };
  const auto give = [&](const device::SumKind& kind, const std::vector<device::Sum>& sums) {
    return *must_have(copies.work->sum(device::Direction::kArrivesInside, kind, sums));
  };
  (void)give({}, {sum(0), sum(1)});
  (void)give({}, {sum(2)});
  const device::Ticket last = give({.op = ReduceOp::kMax}, {sum(3), sum(4)});
  must_be_ok(copies.work->start());
  CHECK(cuda_double::calls("launch") == 2);
  CHECK(cuda_double::calls("event_record") == 1);
  cuda_double::advance(5 * kPiece);
  CHECK(copies.completed(last));
  CHECK(cuda_double::violations().empty());
}

TEST_CASE("a stream that waits and a drain start all that was given") {
  Copies copies;
  for (int i = 0; i < 3; ++i) {
    (void)copies.give();
    must_be_ok(copies.work->start());
  }
  CHECK(starts() == 2);
  const auto stream = must_have(device::Stream::create(copies.work->device()));
  must_be_ok(copies.work->make_wait(stream.handle()));
  CHECK(starts() == 3);
  const device::Ticket last = copies.give();
  cuda_double::advance(3 * kPiece);
  CHECK(copies.work->drain(Deadline::min()).code() == StatusCode::kTimeout);
  CHECK(starts() == 4);
  cuda_double::advance(4 * kPiece);
  CHECK(copies.completed(last));
}

TEST_CASE("what the host spends in calls delays what they start, in virtual time") {
  Copies copies({.start_ns = 50, .record_ns = 20, .query_ns = 3});
  (void)cuda_double::take_host_ns(0);
  const device::Ticket piece = copies.start();
  CHECK(cuda_double::host_ns(0) == 70);
  CHECK_FALSE(copies.completed(piece));
  CHECK(cuda_double::take_host_ns(0) == 73);
  CHECK(cuda_double::host_ns(0) == 0);
  cuda_double::advance(50 + kPiece - 1);
  CHECK_FALSE(copies.completed(piece));
  cuda_double::advance(50 + kPiece);
  CHECK(copies.completed(piece));
}

TEST_CASE("communicators of one process share the kernels of a device") {
  cuda_double::reset({});
  const auto make = [](int ordinal) {
    return must_have(device::Work::create(
        must_have(device::Device::open(*must_have(device::driver()), ordinal))));
  };
  auto first = make(0);
  auto second = make(0);
  CHECK(cuda_double::calls("module_load") == 1);
  const auto elsewhere = make(1);
  CHECK(cuda_double::calls("module_load") == 2);
  first.reset();
  CHECK(cuda_double::live().modules == 2);
  second.reset();
  CHECK(cuda_double::live().modules == 1);
  const auto again = make(0);
  CHECK(cuda_double::calls("module_load") == 3);
}
