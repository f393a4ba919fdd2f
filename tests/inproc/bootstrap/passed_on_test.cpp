// Leave notices and questions: to whom the coordinator passes them on, and when.
#include "bootstrap/control/passed_on.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "must_have.hpp"
#include "peer_ends.hpp"

namespace ho::test {
namespace {

constexpr uint32_t kMembers = 4;
constexpr uint64_t kWorld = 8;  // of all
constexpr uint64_t kPair = 9;   // of ranks 1 and 3
constexpr Deadline kNow{std::chrono::seconds(100)};
constexpr Deadline kLater = kNow + std::chrono::seconds(1);

// Four ranks, and what is passed on between them.
struct Passing {
  PeerEnds peers{kMembers};
  CommunicatorFailures failures{{"rank 0", "rank 1", "rank 2", "rank 3"}};
  PassedOn passed_on{peers.connections, failures};

  Passing() {
    for (uint32_t rank = 0; rank < kMembers; ++rank) {
      (void)must_have(failures.join(rank, {kWorld, kWholeJob, kMembers}));
    }
    for (const uint32_t rank : {1U, 3U}) {
      (void)must_have(failures.join(rank, {kPair, kWorld, 2}));
    }
  }
  static LeaveNotice notice(uint32_t rank, uint64_t communicator) {
    LeaveNotice leaves;
    leaves.rank = GlobalRank(rank);
    leaves.communicator = communicator;
    return leaves;
  }
  void ask(uint32_t rank, std::byte call, uint64_t communicator = kPair) {
    CallQuestion question;
    question.communicator = communicator;
    question.rank = GlobalRank(rank);
    question.call = {call};
    passed_on.ask(question);
  }
  // How many of a type each rank finds, by rank: "0 1 0 1".
  std::string found(wire::Type type) {
    std::string text;
    for (uint32_t rank = 0; rank < kMembers; ++rank) {
      size_t count = 0;
      for (const wire::Type each : peers.types_at(rank)) {
        count += each == type ? 1 : 0;
      }
      text += (rank == 0 ? "" : " ") + std::to_string(count);
    }
    return text;
  }
  std::string notices() { return found(wire::Type::kLeaveNotice); }
  std::string questions() { return found(wire::Type::kCallQuestion); }
};

}  // namespace

TEST_CASE("a leave notice waits a moment, and goes to the members that are left") {
  Passing job;
  LeaveNotice leaves = Passing::notice(1, kPair);
  leaves.members = {GlobalRank(1), GlobalRank(3), GlobalRank(77)};  // one that there is not
  CHECK(job.passed_on.next_deadline() == Deadline::max());
  job.passed_on.leave(leaves, kNow);
  CHECK(job.passed_on.next_deadline() > kNow);
  CHECK(job.passed_on.next_deadline() < kLater);
  job.passed_on.send_leave_notices(kNow);
  CHECK(job.notices() == "0 0 0 0");
  job.passed_on.send_leave_notices(kLater);
  CHECK(job.notices() == "0 0 0 1");
  CHECK(job.passed_on.next_deadline() == Deadline::max());

  job.passed_on.leave(leaves, kLater);  // it says so twice
  CHECK(job.passed_on.next_deadline() == Deadline::max());
}

TEST_CASE("a notice without members goes to all, and to nobody who is through with it") {
  Passing job;
  job.passed_on.leave(Passing::notice(2, kWorld), kNow);
  job.peers.connections.drop(0);
  job.passed_on.send_leave_notices(kLater);
  CHECK(job.peers.types_at(1) == std::vector{wire::Type::kLeaveNotice});
  CHECK(job.peers.types_at(2).empty());
  CHECK(job.peers.types_at(3) == std::vector{wire::Type::kLeaveNotice});

  LeaveNotice leaves = Passing::notice(1, kPair);
  leaves.members = {GlobalRank(1), GlobalRank(3)};
  job.passed_on.leave(leaves, kNow);
  job.failures.release(3, kPair);
  job.passed_on.send_leave_notices(kLater);
  CHECK(job.peers.types_at(3).empty());
}

TEST_CASE("each rank is job of its own messages with the rank that leaves, and of no others") {
  Passing job;
  LeaveNotice leaves = Passing::notice(0, kWorld);
  leaves.pairs = {{GlobalRank(1), 5, 6}};
  job.passed_on.leave(leaves, kNow);
  job.passed_on.send_leave_notices(kLater);
  const auto with_pair = job.peers.messages_at(1);
  REQUIRE(with_pair.size() == 1);
  const LeaveNotice first = must_have(wire::decode<LeaveNotice>(with_pair[0].body));
  REQUIRE(first.pairs.size() == 1);
  CHECK(first.pairs[0].sent == 5);
  CHECK(first.pairs[0].received == 6);
  CHECK(first.members.empty());
  const auto without = job.peers.messages_at(2);
  REQUIRE(without.size() == 1);
  CHECK(must_have(wire::decode<LeaveNotice>(without[0].body)).pairs.empty());
}

TEST_CASE("where a failure is being decided nobody hears who left because of it") {
  Passing job;
  LeaveNotice leaves = Passing::notice(1, kPair);
  leaves.members = {GlobalRank(1), GlobalRank(3)};
  job.passed_on.leave(leaves, kNow);
  job.failures.report(
      {StatusCode::kConnection, GlobalRank(3), std::nullopt, "rail 0 is down", kPair}, kNow);
  job.passed_on.send_leave_notices(kLater);
  CHECK(job.notices() == "0 0 0 0");
  job.ask(3, std::byte{1});
  CHECK(job.questions() == "0 0 0 0");
}

TEST_CASE("of ranks that wait in one call the first alone asks the other members") {
  Passing job;
  job.ask(3, std::byte{1});
  CHECK(job.questions() == "0 1 0 0");
  job.ask(1, std::byte{1});
  CHECK(job.questions() == "0 0 0 0");
  job.ask(1, std::byte{2});
  job.ask(3, std::byte{1});  // again
  CHECK(job.questions() == "0 1 0 1");
  job.ask(2, std::byte{3});  // of a communicator that it is not in
  CHECK(job.questions() == "0 0 0 0");
}

}  // namespace ho::test
