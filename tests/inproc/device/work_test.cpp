// What a communicator's device work tells its engine, in virtual time: when it wakes.
#include "device/work/work.hpp"

#include <poll.h>

#include <array>
#include <memory>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "must_have.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kPiece = 1000;  // bytes, and nanoseconds on the bus

// Copies to the device, one after the other.
struct Copies {
  Copies()
      : memory(must_have(work->take_device(kPiece))), from(must_have(work->take_pinned(kPiece))) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    cuda_double::advance(INT64_MAX / 2);
    must_be_ok(work->drain(Deadline::max()));
  }
  device::Ticket start() {
    const std::array range{device::CopyRange{memory.pointer(), from.bytes().data(), kPiece}};
    return *must_have(work->copy(device::Direction::kArrives, range));
  }
  [[nodiscard]] bool woken() const {
    pollfd ready{work->wait_fd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }
  std::unique_ptr<device::Work> work = [] {
    cuda_double::Config config;
    config.mode = cuda_double::Mode::kTimed;
    cuda_double::reset(config);
    return must_have(
        device::Work::create(must_have(device::Device::open(*must_have(device::driver()), 0))));
  }();
  device::DeviceMemory memory;
  device::PinnedMemory from;
};

}  // namespace

TEST_CASE("the engine is woken when the oldest piece has completed, and again for the next") {
  Copies copies;
  const device::Ticket first = copies.start();
  const device::Ticket second = copies.start();
  must_be_ok(copies.work->wake_when_completed());
  const device::Ticket third = copies.start();  // behind no wake-up
  CHECK_FALSE(copies.woken());
  int64_t ends = 0;
  for (const device::Ticket& piece : {first, second, third}) {
    ends += int64_t{kPiece};
    cuda_double::advance(ends - 1);
    CHECK_FALSE(copies.woken());
    cuda_double::advance(ends);
    CHECK(copies.woken());
    copies.work->clear_wake();
    CHECK(must_have(copies.work->completed(piece)));
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
  CHECK(must_have(copies.work->completed(piece)));
}

TEST_CASE("without the wait for the oldest piece the engine would be woken at once") {
  Copies copies;
  copies.start();
  cuda_double::drop_wait(1);
  must_be_ok(copies.work->wake_when_completed());
  CHECK(copies.woken());
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
