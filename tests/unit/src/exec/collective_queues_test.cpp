// Operations queue by channel over a link that the test opens.
#include "exec/collective_queues.hpp"

#include <memory>
#include <string>
#include <utility>

#include "catch.hpp"
#include "has.hpp"
#include "must_have.hpp"
#include "one_byte.hpp"
#include "silent_link.hpp"
#include "test_owner.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

// Takes messages, and has delivered them, while it is open.
class GateLink : public test::SilentLink {
 public:
  bool open = false;
  uint64_t sent = 0;

  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    sent += open ? 1 : 0;
    return open;
  }
  uint64_t released() override { return sent; }
};

struct QueuesOfRank0 {
  GateLink link;
  test::TestOwner owner;
  std::byte byte{};
  std::optional<Status> cause;
  LeaveNotices notices;
  std::shared_ptr<Recorder> recorder = test::must_have(Recorder::create());
  CollectiveQueues queues{{{}, &owner, nullptr, nullptr, recorder.get()}};

  OpKind kind = OpKind::kSend;          // of what is submitted
  Deadline deadline = Deadline::max();  // and its

  Result<std::shared_ptr<Operation>> try_submit(uint8_t channel, Submission submission = {}) {
    submission.call = test::one_byte_call(byte);
    submission.call.channel = channel;
    submission.call.deadline = deadline;
    submission.schedule = test::one_byte(link, kind);
    return queues.submit(std::move(submission), cause, notices);
  }
  std::shared_ptr<Operation> submit(uint8_t channel, Submission submission = {}) {
    return test::must_have(try_submit(channel, std::move(submission)));
  }
  std::optional<RunError> step() {
    std::optional<RunError> error;
    (void)queues.step(error);
    return error;
  }
  // Until the operation has ended; the error of a step, if one fails.
  std::optional<RunError> step_until_ended(const Operation& operation) {
    std::optional<RunError> error;
    for (int i = 0; i < 10 && !operation.ended() && !error; ++i) {
      error = step();
    }
    return error;
  }
  void rank_1_leaves_after(uint32_t entered) {
    PeerLeaveNotice notice;
    notice.rank = GlobalRank(1U);
    notice.name = "rank 1";
    notice.channels.at(0).entered = entered;
    notices.add(std::move(notice));
  }
};

Submission with_second_part(Result<NextPart> part) {
  Submission submission;
  submission.next =
      std::make_shared<const PartToCome>(PartToCome{[part = std::move(part)] { return part; }});
  return submission;
}

constexpr Deadline kLater{24h * 365 * 100};

}  // namespace

TEST_CASE("operations of one channel go one after another, and wait for no other channel") {
  QueuesOfRank0 rank_0;
  const auto first = rank_0.submit(0);
  const auto second = rank_0.submit(0);
  const auto elsewhere = rank_0.submit(1);
  CHECK_FALSE(rank_0.step().has_value());
  CHECK_FALSE(first->ended());
  CHECK_FALSE(rank_0.queues.take_woken());
  rank_0.link.open = true;
  CHECK_FALSE(rank_0.step_until_ended(*first).has_value());
  CHECK((first->ended() && first->status().ok()));
  CHECK(elsewhere->ended());
  CHECK_FALSE(second->ended());
  CHECK(rank_0.queues.take_woken());
  CHECK_FALSE(rank_0.queues.take_woken());
  CHECK(rank_0.queues.active());
  CHECK_FALSE(rank_0.step_until_ended(*second).has_value());
  CHECK(second->ended());
  CHECK_FALSE(rank_0.queues.active());
}

TEST_CASE("a channel's state has its numbers, its first operation, and the first that is held") {
  QueuesOfRank0 rank_0;
  CHECK(rank_0.queues.states().front().operation.empty());
  (void)rank_0.submit(0);
  const auto second = rank_0.submit(0);
  second->hold();
  CHECK_FALSE(rank_0.step().has_value());
  const ChannelState state = rank_0.queues.states().front();
  CHECK(state.entered == 2);
  CHECK(state.completed == 0);
  CHECK(state.operation == "broadcast");
  CHECK(state.waiting.find("send to rank 1") != std::string::npos);
  CHECK(state.held == 2);
  CHECK(rank_0.queues.progress().at(0).last == "broadcast");
}

TEST_CASE("the earliest deadline of all is waited for, and the one that is late is named") {
  QueuesOfRank0 rank_0;
  RunWait wait;
  Deadline earliest = Deadline::max();
  rank_0.queues.add_waits(&wait, &earliest);
  CHECK(earliest == Deadline::max());
  rank_0.deadline = kLater;
  (void)rank_0.submit(0);
  const Deadline past{1s};  // after the machine had started
  rank_0.deadline = past;
  (void)rank_0.submit(0);
  rank_0.deadline = kLater;
  (void)rank_0.submit(0);
  (void)rank_0.submit(1);
  CHECK_FALSE(rank_0.step().has_value());
  rank_0.queues.add_waits(&wait, &earliest);
  CHECK(earliest == past);
  const auto late = rank_0.queues.late();
  REQUIRE(late.has_value());
  CHECK(has(late->status, "broadcast #2 (ho_ring) did not complete"));
  CHECK(has(late->status, "this rank waits in: "));
}

TEST_CASE("a driver is woken by the first arrival for any of the first operations") {
  QueuesOfRank0 rank_0;
  rank_0.kind = OpKind::kRecv;
  (void)rank_0.submit(0);
  CHECK_FALSE(rank_0.step().has_value());
  RunWait alone;
  Deadline earliest = Deadline::max();
  rank_0.queues.add_waits(&alone, &earliest);
  CHECK(alone.intra_arrivals == 1);
  RunWait wait;
  wait.intra_arrivals = 3;  // of messages
  rank_0.queues.add_waits(&wait, &earliest);
  CHECK(wait.intra_arrivals == 1);
}

TEST_CASE("the ranks are asked about an operation that has not moved, and when to look is said") {
  QueuesOfRank0 rank_0;
  (void)rank_0.submit(0);
  CHECK_FALSE(rank_0.step().has_value());
  const Deadline now = kLater;
  Deadline next = Deadline::max();
  CHECK(rank_0.queues.take_due_questions(now, &next).empty());
  CHECK(next == now + LongWait::kLongest);
  const auto due = rank_0.queues.take_due_questions(next, &next);
  REQUIRE(due.size() == 1);
  CHECK(due.front().channel == 0);
}

TEST_CASE("an end of everything names each operation, and says of the first where it waits") {
  QueuesOfRank0 rank_0;
  const auto first = rank_0.submit(0);
  const auto second = rank_0.submit(0);
  CHECK_FALSE(rank_0.step().has_value());
  rank_0.cause = Status(StatusCode::kPeerLost, "rank 1 is gone");
  rank_0.queues.end_all(*rank_0.cause);
  CHECK(has(first->status(), "broadcast #1 (ho_ring), in "));
  CHECK(has(second->status(), "broadcast #2 (ho_ring): rank 1 is gone"));
  CHECK_FALSE(rank_0.queues.active());
  // Later ones are refused, and count nowhere.
  const auto later = rank_0.try_submit(0);
  CHECK(has(later.status(), "broadcast #3 (ho_ring): rank 1 is gone"));
  CHECK(rank_0.queues.progress().at(0).entered == 2);
}

TEST_CASE("a rank that leaves ends the operations that it has not entered, and no others") {
  QueuesOfRank0 rank_0;
  const auto entered = rank_0.submit(0);
  const auto beyond = rank_0.submit(0);
  const auto elsewhere = rank_0.submit(1);
  rank_0.rank_1_leaves_after(1);
  const EndedByLeave ended = rank_0.queues.end_of_left(rank_0.notices);
  CHECK(ended.any);
  CHECK(ended.abandoned.has_value());
  CHECK_FALSE(entered->ended());
  CHECK(has(beyond->status(), "broadcast #2 (ho_ring): rank 1 has left"));
  CHECK(elsewhere->ended());
  rank_0.link.open = true;
  CHECK_FALSE(rank_0.step_until_ended(*entered).has_value());
  CHECK(entered->status().ok());
  CHECK(has(rank_0.try_submit(0).status(), "rank 1 has left"));
}

TEST_CASE("a second part that must be refused ends its operation alone, any other error all") {
  QueuesOfRank0 rank_0;
  rank_0.link.open = true;
  const auto refused =
      rank_0.submit(0, with_second_part(Status(StatusCode::kUnsupported, "more than it can move")));
  const auto behind = rank_0.submit(0);
  CHECK_FALSE(rank_0.step_until_ended(*refused).has_value());
  CHECK(has(refused->status(), "broadcast #1 (ho_ring): more than it can move"));
  CHECK_FALSE(rank_0.step_until_ended(*behind).has_value());
  CHECK(behind->status().ok());

  const auto broken =
      rank_0.submit(0, with_second_part(Status(StatusCode::kMismatch, "counts differ")));
  const auto error = rank_0.step_until_ended(*broken);
  REQUIRE(error.has_value());
  CHECK(has(error->status, "broadcast #3 (ho_ring): counts differ"));
  CHECK_FALSE(broken->ended());
}

TEST_CASE("the second part of an operation has the number of its first part") {
  QueuesOfRank0 rank_0;
  rank_0.link.open = true;
  const auto operation =
      rank_0.submit(0,
                    with_second_part(NextPart{test::one_byte_call(rank_0.byte),
                                              test::one_byte(rank_0.link, OpKind::kRecv)}));
  CHECK_FALSE(rank_0.step_until_ended(*operation).has_value());
  CHECK_FALSE(operation->ended());
  const ChannelState state = rank_0.queues.states().front();
  CHECK(state.waiting.find("recv from rank 1") != std::string::npos);
  rank_0.queues.end_all(Status(StatusCode::kAborted, "enough"));
  CHECK(has(operation->status(), "broadcast #1 (ho_ring), in "));
  // The first part moved this.
  CHECK(operation->report().intra_sent_bytes + operation->report().inter_sent_bytes == 1);
}
