// A recorder that is read while it is written, and while the engine that writes it is stuck.
#include "exec/recorder.hpp"

#include <atomic>
#include <memory>
#include <thread>

#include "catch.hpp"
#include "exec/engine.hpp"
#include "must_have.hpp"
#include "one_byte.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"
#include "test_owner.hpp"

namespace ho {
namespace {

// All parts of such a record say the same number.
OperationRecord record_of(uint32_t value) {
  OperationRecord record;
  record.made.frame.sequence = value;
  record.bytes = value;
  record.entered_ns = value;
  return record;
}

void set_progress(OperationRecord& record, uint64_t value) {
  record.progress.done_pieces = value;
  record.progress.pieces = value;
  record.progress.last_piece_ns = static_cast<int64_t>(value);
  record.progress.wait.since_ns = static_cast<int64_t>(value);
}

TEST_CASE("a record that is read while it is written is the one before or the one after") {
  constexpr uint32_t kOperations = 20000;
  const auto recorder = test::must_have(Recorder::create());
  std::atomic<bool> over = false;
  std::atomic<uint64_t> looks = 0;
  std::atomic<uint64_t> torn = 0;
  std::thread reader([&] {
    while (!over) {
      for (const OperationRecord& read : recorder->last(0, 16)) {
        const OperationProgress& progress = read.progress;
        const auto value = static_cast<int64_t>(read.bytes);
        ++looks;
        torn +=
            read.entered_ns != value || read.made.frame.sequence != read.bytes ||
                    read.number != read.bytes || progress.pieces != progress.done_pieces ||
                    (progress.ended_ns == 0 && progress.wait.since_ns != progress.last_piece_ns) ||
                    progress.last_piece_ns != static_cast<int64_t>(progress.pieces)
                ? 1
                : 0;
      }
    }
  });
  // At least so many, and until some were read.
  for (uint32_t number = 1; number <= kOperations || looks == 0; ++number) {
    OperationRecord record = record_of(number);
    recorder->begin(record);
    for (uint64_t step = 1; step <= 4; ++step) {
      set_progress(record, number * 10 + step);
      recorder->update(record);
    }
    recorder->end(record, OperationProgress::State::kCompleted, number);
  }
  over = true;
  reader.join();
  CHECK(looks > 0);
  CHECK(torn == 0);
}

TEST_CASE("whom a stuck operation waits for is read without the engine's lock") {
  test::Journal journal;
  test::SilentLink link;
  test::TestOwner owner;
  auto engine = test::must_have(
      Engine::create({}, std::make_unique<test::SilentTransport>(journal, link), nullptr, owner));
  owner.decide = [&](const RunError& error) { engine->fail(error.status); };
  std::byte into{};
  Call call = test::one_byte_call(into);
  call.timeout = std::chrono::hours(1);
  call.deadline = deadline_after(call.timeout);
  const auto operation =
      test::must_have(engine->submit({std::move(call), test::one_byte(link, OpKind::kRecv), true}));
  const auto recorder = engine->recorder();

  std::optional<OperationRecord> waiting;
  engine->exclusively([&](ShmTransport&, Transport*) {
    // The driver cannot have this lock now, as when it is stuck with it.
    const auto records = recorder->last(0);
    waiting = records.empty() ? std::nullopt : std::optional(records.back());
  });
  const Deadline most = deadline_after(std::chrono::seconds(60));
  while (waiting && waiting->progress.wait.kind == OperationWait::Kind::kNothing && !passed(most)) {
    std::this_thread::yield();
    waiting = recorder->last(0).back();
  }
  REQUIRE(waiting.has_value());
  CHECK(waiting->progress.state == OperationProgress::State::kRunning);
  CHECK(waiting->progress.wait.kind == OperationWait::Kind::kReceive);
  CHECK(waiting->progress.wait.peer == GlobalRank(1U));
  CHECK(waiting->progress.wait.since_ns >= waiting->entered_ns);
  CHECK(waiting->progress.done_pieces == 0);
  CHECK(waiting->progress.pieces == 1);

  engine->fail(Status(StatusCode::kAborted, "enough"));
  REQUIRE(engine->wait(*operation, Deadline::max()).has_value());
  const OperationRecord failed = recorder->last(0).back();
  CHECK(failed.progress.state == OperationProgress::State::kFailed);
  CHECK(failed.progress.wait.peer == GlobalRank(1U));
  CHECK(recorder->completed() == 0);
}

}  // namespace
}  // namespace ho
