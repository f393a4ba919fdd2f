// The engine's deadlines, over a transport on which nothing ever arrives.
#include "exec/engine.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "more_time.hpp"
#include "network_double.hpp"
#include "one_byte.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"
#include "test_owner.hpp"

namespace ho {
namespace {

Call call_until(std::byte& into, Deadline deadline, std::chrono::milliseconds timeout) {
  Call call = test::one_byte_call(into);
  call.deadline = deadline;
  call.timeout = timeout;
  return call;
}

// An engine whose first failure is the job's decision at once.
struct Bench {
  test::Journal journal;
  test::SilentLink link;
  test::TestOwner owner;
  std::unique_ptr<Engine> engine;

  Bench() {
    auto made =
        Engine::create({}, std::make_unique<test::SilentTransport>(journal, link), nullptr, owner);
    REQUIRE(made.ok());
    engine = *std::move(made);
    owner.decide = [this](const RunError& error) { engine->fail(error.status); };
  }
};

// Takes a message and keeps its memory until it is asked for that.
class LendingLink : public test::SilentLink {
 public:
  bool taken = false;
  uint64_t released_count = 0;

  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    return !std::exchange(taken, true);
  }
  uint64_t released() override { return released_count; }
  [[nodiscard]] bool over_network() const override { return true; }
};

constexpr std::chrono::milliseconds kLong{3600000};
// What a driver does between two sleeps: it offers its core a few times.
constexpr int kMaxTurnsPerSleep = 32;

// Of an operation with that time, behind one with a long time. False: the time was over before
// anybody had slept.
bool ends_at_its_own_deadline(bool background, std::chrono::milliseconds time) {
  Bench bench;
  std::byte into{};
  const auto schedule = test::one_byte(bench.link, OpKind::kRecv);
  const Deadline front_ends = deadline_after(kLong);
  auto front = bench.engine->submit({call_until(into, front_ends, kLong), schedule, background});
  const Deadline queued_ends = deadline_after(time);
  auto queued = bench.engine->submit({call_until(into, queued_ends, time), schedule, background});
  REQUIRE((front.ok() && queued.ok()));

  const std::optional<Status> ended = bench.engine->wait(**queued, Deadline::max());
  const bool was_due = passed(queued_ends);
  const bool front_was_due = passed(front_ends);

  REQUIRE(ended.has_value());
  INFO((background ? "background: " : "blocking: ") << ended->message());
  REQUIRE(ended->code() == StatusCode::kTimeout);
  CHECK(was_due);
  CHECK_FALSE(front_was_due);
  // The text names the one that is late, and what the channel waits for.
  REQUIRE(bench.owner.failures.size() == 1);
  const std::string text = bench.owner.failures.front().status.message();
  CHECK(text.find("broadcast #2") == 0);
  CHECK(text.find("within " + std::to_string(time.count()) + " ms") != std::string::npos);
  CHECK(text.find("recv from rank 1") != std::string::npos);
  // Nobody slept past the deadline, and nobody spun towards it.
  const std::vector<Deadline>& sleeps = bench.journal.sleeps;
  REQUIRE(bench.journal.turns <= static_cast<int>(sleeps.size() + 1) * kMaxTurnsPerSleep);
  CHECK(sleeps.size() < 10);
  if (sleeps.empty()) {
    return false;
  }
  CHECK(sleeps.back() <= queued_ends);
  return true;
}

TEST_CASE("a queued operation ends at its own deadline, not that of the one in front") {
  for (const bool background : {false, true}) {
    CHECK(test::with_more_time(std::chrono::milliseconds(100), [&](std::chrono::milliseconds time) {
      return ends_at_its_own_deadline(background, time);
    }));
  }
}

TEST_CASE("a send whose memory is all that is missing asks the network for it, and ends") {
  test::Journal journal;
  LendingLink link;
  test::TestOwner owner;
  auto network = std::make_unique<test::NetworkDouble>(link);
  network->release = [&link] {
    return std::exchange(link.released_count, link.taken ? 1 : 0) == 0;
  };
  auto engine = Engine::create(
      {}, std::make_unique<test::SilentTransport>(journal, link), std::move(network), owner);
  REQUIRE(engine.ok());
  owner.decide = [&](const RunError& error) { (*engine)->fail(error.status); };
  std::byte from{};
  constexpr std::chrono::milliseconds kTime{60000};
  const Call call = call_until(from, deadline_after(kTime), kTime);
  auto sent = (*engine)->submit({call, test::one_byte(link, OpKind::kSend), false});
  REQUIRE(sent.ok());
  const std::optional<Status> ended = (*engine)->wait(**sent, Deadline::max());
  CHECK((ended && ended->ok()));
  CHECK(link.released_count == 1);
}

TEST_CASE("a scaled input is freed when its operation ends, also where nobody lets go of that") {
  Bench bench;
  std::byte into{};
  Call call = call_until(into, deadline_after(kLong), kLong);
  call.scaled = std::shared_ptr<std::byte[]>(std::make_unique<std::byte[]>(64));
  call.scaled_bytes = 64;
  const std::weak_ptr<std::byte[]> scaled = call.scaled;
  const auto kept =
      bench.engine->submit({std::move(call), test::one_byte(bench.link, OpKind::kRecv), true});
  REQUIRE(kept.ok());
  CHECK_FALSE(scaled.expired());
  CHECK(bench.engine->memory_bytes() >= 64);
  bench.engine->fail(Status(StatusCode::kAborted, "enough"));
  REQUIRE(bench.engine->wait(**kept, Deadline::max()).has_value());
  CHECK(scaled.expired());
}

}  // namespace
}  // namespace ho
