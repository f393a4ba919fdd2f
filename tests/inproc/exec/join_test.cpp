// Who may go on when: threads that join an operation on the device, and threads that wait while
// another one drives.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "catch.hpp"
#include "cuda_double/cuda_double.hpp"
#include "device/work/work.hpp"
#include "exec/engine.hpp"
#include "more_time.hpp"
#include "must_have.hpp"
#include "one_byte.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"
#include "test_owner.hpp"

namespace ho {
namespace {

using test::must_have;
using test::one_byte_call;

// Takes every message. The peer reads it when the test says so.
class UnreadLink : public test::SilentLink {
 public:
  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    return true;
  }
  uint64_t released() override { return read; }
  std::atomic<uint64_t> read = 0;
};

struct Joined {
  test::Journal journal;
  UnreadLink link;
  std::byte byte{};
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Work> work;
  test::SilentTransport* transport = nullptr;
  test::TestOwner owner;
  std::unique_ptr<Engine> engine;

  Joined() {
    cuda_double::reset({});
    device = must_have(device::Device::open(*must_have(device::driver()), 0));
    work = must_have(device::Work::create(device));
    EngineOptions options;
    options.work = work.get();
    auto silent = std::make_unique<test::SilentTransport>(journal, link);
    transport = silent.get();
    engine = must_have(Engine::create(options, std::move(silent), nullptr, owner));
    owner.decide = [this](const RunError& error) { engine->fail(error.status); };
  }
  std::shared_ptr<Operation> submit(Call call, std::function<Result<NextPart>()> next) {
    const auto current = must_have(device::CurrentContext::enter(*device));
    device::Event entry = must_have(device::Event::create(*device));
    return must_have(
        engine->submit({std::move(call),
                        test::one_byte(link, OpKind::kSend),
                        false,
                        next ? std::make_shared<const PartToCome>(PartToCome{next}) : nullptr,
                        std::move(entry)}));
  }
  // Whether a stream may wait for it now. Whoever has to wait for something waits that long.
  bool joins(Operation& operation) {
    const auto joined =
        engine->join(operation, nullptr, deadline_after(std::chrono::milliseconds(30)));
    INFO((joined ? joined->message() : std::string()));
    CHECK((!joined || joined->ok()));
    return joined.has_value();
  }
};

}  // namespace

TEST_CASE(
    "a join waits for nothing that only the peer has to do, where all buffers are a device's") {
  Joined bench;
  const auto operation = bench.submit(one_byte_call(bench.byte), {});
  CHECK(bench.joins(*operation));
  bench.link.read = 1;
  CHECK(bench.engine->wait(*operation, Deadline::max())->ok());
}

// The caller may write the host's buffer once the join has returned: no stream holds it.
TEST_CASE("a join waits until the peer has read what lies in a host buffer beside a device's") {
  Joined bench;
  Call call = one_byte_call(bench.byte);
  call.device.work = bench.work.get();
  call.device.mixed = true;
  const auto operation = bench.submit(std::move(call), {});
  CHECK_FALSE(bench.joins(*operation));
  bench.link.read = 1;
  CHECK(bench.joins(*operation));
  CHECK(bench.engine->wait(*operation, Deadline::max())->ok());
}

// As all_to_all_counts, whose data moves when all counts are there.
TEST_CASE("a join waits for an operation's second part") {
  Joined bench;
  const auto second = test::one_byte(bench.link, OpKind::kSend);
  const auto operation = bench.submit(one_byte_call(bench.byte), [&]() -> Result<NextPart> {
    return NextPart{one_byte_call(bench.byte), second};
  });
  CHECK_FALSE(bench.joins(*operation));
  bench.link.read = 1;
  CHECK(bench.joins(*operation));
  bench.link.read = 2;
  CHECK(bench.engine->wait(*operation, Deadline::max())->ok());
}

TEST_CASE("a driver whose time is over leaves the drive to a thread that waits") {
  using std::chrono::milliseconds;
  // Shows nothing where the second thread came only when the first had left.
  CHECK(test::with_more_time(milliseconds(100), [](milliseconds time) {
    Joined bench;
    const auto operation = must_have(bench.engine->submit(
        {one_byte_call(bench.byte), test::one_byte(bench.link, OpKind::kSend), false}));
    std::atomic<bool> left = false;
    bool ended_early = false;
    std::thread driver([&] {
      ended_early = bench.engine->wait(*operation, deadline_after(time)).has_value();
      left = true;
      bench.link.read = 1;
      bench.transport->wake();
    });
    while (bench.journal.turns == 0) {
      std::this_thread::yield();
    }
    const bool came_first = !left;
    // Bounded, so that a thread that nobody wakes is seen.
    const auto ended = bench.engine->wait(*operation, deadline_after(std::chrono::seconds(20)));
    driver.join();
    CHECK_FALSE(ended_early);
    CHECK((ended.has_value() && ended->ok()));
    return came_first || !ended.has_value();
  }));
}

}  // namespace ho
