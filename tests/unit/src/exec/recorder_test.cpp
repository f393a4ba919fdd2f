// Another thread that reads: tests/inproc/exec/recorder_test.cpp.
#include "exec/recorder.hpp"

#include "catch.hpp"
#include "exec/long_wait.hpp"
#include "must_have.hpp"
#include "plan/plan.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

constexpr uint8_t kRest = 2;

MadeCall gather(uint32_t number, uint16_t root, uint64_t count = 12) {
  MadeCall call{.channel = kRest, .labelled = 0, .frame = {}};
  Frame& frame = call.frame;
  frame.collective = 5;
  frame.dtype = 7;
  frame.sequence = number;
  frame.digest = root;
  frame.count = count;
  return call;
}

struct RecordedCalls {
  std::shared_ptr<Recorder> recorder = test::must_have(Recorder::create());

  OperationRecord begin(const MadeCall& made, uint64_t bytes = 48) {
    OperationRecord record;
    record.made = made;
    record.bytes = bytes;
    record.entered_ns = made.frame.sequence;
    recorder->begin(record);
    return record;
  }
};

MadeCall on_channel(MadeCall call, uint8_t channel) {
  call.channel = channel;
  return call;
}

}  // namespace

TEST_CASE("a peer's call is compared with the own one of its number and channel") {
  RecordedCalls bench;
  const Recorder& history = *bench.recorder;
  bench.begin(gather(1, 0));
  bench.begin(gather(2, 0));
  CHECK(history.compare(gather(1, 0)).ok());
  CHECK(history.compare(gather(3, 5)).ok());                             // not called yet
  CHECK(history.compare(on_channel(gather(2, 5), kRest - 1)).ok());      // numbered apart
  CHECK(history.compare(on_channel(gather(2, 5), kChannelCount)).ok());  // no such channel
  const Status other = history.compare(gather(1, 5));
  CHECK(other.code() == StatusCode::kMismatch);
  CHECK(other.message().find("peer passed root 5, this rank root 0") != std::string::npos);
  CHECK(history.compare(gather(2, 0, 13)).code() == StatusCode::kMismatch);
}

TEST_CASE("where in its call a peer is makes no other call of it") {
  RecordedCalls bench;
  const Recorder& history = *bench.recorder;
  bench.begin(gather(1, 0));
  MadeCall peer = gather(1, 0);
  peer.frame.phase = 3;
  peer.frame.op_index = 4;
  peer.frame.payload_bytes = 5;
  CHECK(history.compare(peer).ok());
}

// src/transport may not look at plans, so it has their numbers and names once more.
TEST_CASE("an error names every collective and its root as the plans do") {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    INFO(to_string(collective));
    Frame own = gather(1, 0).frame;
    own.collective = static_cast<uint8_t>(i);
    Frame peer = own;
    peer.digest = 1;
    const std::string text = check_same_call(own, peer).message();
    CHECK(text.find(std::string(to_string(collective)) + " #1") != std::string::npos);
    CHECK((text.find("root 1") != std::string::npos) == has_root(collective));
  }
}

TEST_CASE("calls with a label are compared in their order, whatever their channel") {
  RecordedCalls bench;
  const Recorder& history = *bench.recorder;
  MadeCall own = gather(1, 0);
  own.frame.flags = kLabelled;
  own.labelled = 3;
  bench.begin(own);
  MadeCall peer = own;
  CHECK(history.compare(peer).ok());
  peer.channel = 0;  // an all-gather, numbered apart
  peer.frame.collective = 0;
  const Status other = history.compare(peer);
  CHECK(other.code() == StatusCode::kMismatch);
  CHECK(other.message().find("peer called all_gather #1") != std::string::npos);
  CHECK(other.message().find("this rank gather #1") != std::string::npos);
  peer.labelled = 4;  // not called yet
  CHECK(history.compare(peer).ok());
  peer.labelled = 0;  // without a label it may be at any time
  CHECK(history.compare(peer).ok());
}

TEST_CASE("only the last calls of a channel are kept") {
  RecordedCalls bench;
  const Recorder& history = *bench.recorder;
  for (uint32_t number = 1; number <= Recorder::kKept + 1; ++number) {
    bench.begin(gather(number, 0));
  }
  CHECK(history.compare(gather(1, 5)).ok());
  CHECK_FALSE(history.compare(gather(2, 5)).ok());
  const auto requested = history.until(kRest, 10, 3);
  REQUIRE(requested.size() == 3);
  CHECK(requested.front().frame.sequence == 8);
  CHECK(requested.back().frame.sequence == 10);
  CHECK(history.until(kRest, 3, 8).size() == 2);
}

TEST_CASE("a wait is asked about when nothing has moved, and again ever later") {
  const Deadline start{std::chrono::seconds(1000)};
  LongWait wait;
  CHECK(wait.next() == Deadline::max());
  CHECK_FALSE(wait.take_due(5, 60s, start));
  CHECK(wait.next() == start + 1s);
  CHECK_FALSE(wait.take_due(5, 60s, start + 999ms));
  CHECK_FALSE(wait.take_due(6, 60s, start + 1s));  // it has moved
  CHECK(wait.next() == start + 2s);
  CHECK(wait.take_due(6, 60s, start + 2s));
  CHECK_FALSE(wait.take_due(6, 60s, start + 3s));
  CHECK(wait.take_due(6, 60s, start + 4s));
  CHECK(wait.next() == start + 8s);
  // A short timeout leaves time for an answer.
  LongWait brief;
  CHECK_FALSE(brief.take_due(0, 800ms, start));
  CHECK(brief.next() == start + 200ms);
}

TEST_CASE("a record is read as it was written, in all of its parts") {
  RecordedCalls bench;
  OperationRecord record = bench.begin(gather(7, 0));
  record.progress.state = OperationProgress::State::kRunning;
  record.progress.first_piece_ns = 11;
  record.progress.last_piece_ns = 12;
  record.progress.done_pieces = 3;
  record.progress.pieces = 9;
  record.progress.wait = {.kind = OperationWait::Kind::kReceive,
                          .on_rail = true,
                          .peer = GlobalRank(5U),
                          .rail = RailIndex(1U),
                          .step = 2,
                          .steps = 4,
                          .since_ns = 13};
  bench.recorder->update(record);
  const auto read = bench.recorder->last(kRest);
  REQUIRE(read.size() == 1);
  CHECK(read.front().number == 1);
  CHECK(read.front().made.frame == record.made.frame);
  CHECK(read.front().bytes == 48);
  CHECK(read.front().entered_ns == 7);
  const OperationProgress& progress = read.front().progress;
  CHECK(progress.state == OperationProgress::State::kRunning);
  CHECK(progress.first_piece_ns == 11);
  CHECK(progress.last_piece_ns == 12);
  CHECK(progress.done_pieces == 3);
  CHECK(progress.pieces == 9);
  CHECK(progress.wait.kind == OperationWait::Kind::kReceive);
  CHECK(progress.wait.on_rail);
  CHECK(progress.wait.peer == GlobalRank(5U));
  CHECK(progress.wait.rail == RailIndex(1U));
  CHECK(progress.wait.step == 2);
  CHECK(progress.wait.steps == 4);
  CHECK(progress.wait.since_ns == 13);
}

TEST_CASE("what completed counts with its bytes and waits for nobody") {
  RecordedCalls bench;
  OperationRecord completed = bench.begin(gather(1, 0), 100);
  OperationRecord failed = bench.begin(gather(2, 0), 10);
  for (OperationRecord* record : {&completed, &failed}) {
    record->progress.wait.kind = OperationWait::Kind::kSend;
  }
  bench.recorder->end(completed, OperationProgress::State::kCompleted, 21);
  bench.recorder->end(failed, OperationProgress::State::kFailed, 22);
  CHECK(bench.recorder->completed() == 1);
  CHECK(bench.recorder->completed_bytes() == 100);
  const auto read = bench.recorder->last(kRest);
  REQUIRE(read.size() == 2);
  CHECK(read[0].progress.state == OperationProgress::State::kCompleted);
  CHECK(read[0].progress.ended_ns == 21);
  CHECK(read[0].progress.wait.kind == OperationWait::Kind::kNothing);
  // Whom it waited for when it failed is what its reader wants to know.
  CHECK(read[1].progress.state == OperationProgress::State::kFailed);
  CHECK(read[1].progress.wait.kind == OperationWait::Kind::kSend);
}

TEST_CASE("an operation that waits is seen however many began behind it") {
  RecordedCalls bench;
  OperationRecord stuck = bench.begin(gather(1, 0));
  for (uint32_t number = 2; number <= Recorder::kKept + 10; ++number) {
    bench.begin(gather(number, 0));
  }
  CHECK(bench.recorder->last(kRest).front().number == 11);
  stuck.progress.done_pieces = 4;
  bench.recorder->update(stuck);
  auto read = bench.recorder->last(kRest, 5);
  REQUIRE(read.size() == 6);
  CHECK(read.front().number == 1);
  CHECK(read.front().progress.done_pieces == 4);
  CHECK(read.back().number == Recorder::kKept + 10);
  bench.recorder->end(stuck, OperationProgress::State::kCompleted, 30);
  read = bench.recorder->last(kRest);
  CHECK(read.size() == Recorder::kKept);
  CHECK(read.front().number == 11);
}
