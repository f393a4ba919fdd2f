#include "bootstrap/failure/communicator_failures.hpp"

#include <algorithm>

#include "bootstrap/messages/rank_names.hpp"
#include "catch.hpp"
#include "has.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

using Decision = CommunicatorFailures::Decision;

const Deadline kBegin{std::chrono::seconds(1000)};
constexpr uint64_t kWorld = 1;

std::vector<std::string> named(uint32_t size) {
  std::vector<std::string> result;
  for (uint32_t rank = 0; rank < size; ++rank) {
    result.push_back(rank_at_host(rank, "n", 100 + rank));
  }
  return result;
}

// World 1 of ranks 0 to 3; 2 = {0, 1} and 3 = {2, 3} split from it; 4 = {0, 1} split from 2.
struct Tree {
  Tree() : failures(named(4)) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      enter(rank, {kWorld, kWholeJob, 4});
      enter(rank, {rank < 2 ? 2U : 3U, kWorld, 2});
    }
    enter(0, {4, 2, 2});
    enter(1, {4, 2, 2});
  }
  void enter(uint32_t rank, const Membership& membership) {
    const auto failed = failures.join(rank, membership);
    REQUIRE(failed.ok());
    REQUIRE_FALSE(failed->has_value());
  }
  void report(uint32_t rank,
              uint64_t communicator,
              StatusCode code,
              const std::string& text,
              Deadline now = kBegin) {
    failures.report({.code = code,
                     .reporter = GlobalRank(rank),
                     .peer = {},
                     .text = text,
                     .communicator = communicator},
                    now);
  }
  // All that is decided within a second.
  std::vector<Decision> decided() {
    std::vector<Decision> all;
    while (failures.next_deadline() <= kBegin + 10s) {
      for (Decision& decision : failures.decide(failures.next_deadline())) {
        all.push_back(std::move(decision));
      }
    }
    return all;
  }
  CommunicatorFailures failures;
};

const Decision& on(const std::vector<Decision>& decisions, uint64_t communicator) {
  const auto entry =
      std::find_if(decisions.begin(), decisions.end(), [communicator](const Decision& each) {
        return each.communicator == communicator;
      });
  REQUIRE(entry != decisions.end());
  return *entry;
}

}  // namespace

TEST_CASE("an abort ends a communicator and all below it, not its siblings or parent") {
  Tree tree;
  tree.report(1, 2, StatusCode::kAborted, "enough");
  const auto decisions = tree.decided();
  REQUIRE(decisions.size() == 2);
  CHECK(decisions[0].communicator == 4);  // first, so that no rank hears of 2 alone
  for (const uint64_t communicator : {2U, 4U}) {
    CHECK(on(decisions, communicator).ranks == std::vector<uint32_t>{0, 1});
    CHECK(has(on(decisions, communicator).cause.message(), "enough"));
    CHECK(tree.failures.has_cause(communicator));
  }
  CHECK_FALSE(tree.failures.has_cause(3));
  CHECK_FALSE(tree.failures.has_cause(kWorld));
  // What fails later is decided by itself.
  tree.report(2, 3, StatusCode::kConnection, "rail down");
  CHECK(has(on(tree.decided(), 3).cause.message(), "rail down"));
}

TEST_CASE("the end of the job ends every communicator, also one that is made later") {
  Tree tree;
  tree.report(3, kWholeJob, StatusCode::kSystem, "no memory");
  CHECK(tree.decided().size() == 5);
  const auto late = tree.failures.join(0, {9, kWorld, 2});
  REQUIRE(late.ok());
  REQUIRE(late->has_value());
  CHECK(has((*late)->cause.message(), "no memory"));
}

TEST_CASE("a rank that is gone ends what it is in, and nothing else") {
  Tree tree;
  tree.failures.rank_gone(3, {}, kBegin);
  const auto decisions = tree.decided();
  CHECK(decisions.size() == 2);
  CHECK(on(decisions, kWorld).ranks == std::vector<uint32_t>{0, 1, 2});
  CHECK(on(decisions, 3).ranks == std::vector<uint32_t>{2});
  CHECK(has(on(decisions, 3).cause.message(), "rank 3 (n, pid 103) is gone"));
  CHECK_FALSE(tree.failures.has_cause(2));
}

TEST_CASE("an abort of what a lost rank has ended ends its splits, with that rank as the cause") {
  Tree tree;
  tree.failures.rank_gone(3, {}, kBegin);
  REQUIRE(tree.decided().size() == 2);
  tree.report(2, 2, StatusCode::kAborted, "of a stranger");
  CHECK(tree.decided().empty());
  tree.report(2, kWorld, StatusCode::kAborted, "enough");
  CHECK(tree.failures.deciding());
  const auto decisions = tree.decided();
  REQUIRE(decisions.size() == 2);
  CHECK(decisions[0].communicator == 4);
  CHECK(has(on(decisions, 2).cause.message(), "rank 3 (n, pid 103) is gone"));
  CHECK_FALSE(tree.failures.deciding());
  tree.report(2, kWorld, StatusCode::kAborted, "again");
  CHECK(tree.decided().empty());
}

TEST_CASE("a rank that is gone before it is in any communicator ends the job") {
  CommunicatorFailures failures(named(2));
  failures.rank_gone(1, {}, kBegin);
  const auto decisions = failures.decide(kBegin + 1s);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions.front().communicator == kWholeJob);
}

TEST_CASE("an abort above a failure of its caller has that failure's cause") {
  Tree tree;
  tree.report(1, 4, StatusCode::kMismatch, "7 against 8");
  // The failure is still being decided, or it was long ago.
  const bool decided_before = GENERATE(false, true);
  if (decided_before) {
    REQUIRE(tree.decided().size() == 1);
  }
  tree.report(1, kWorld, StatusCode::kAborted, "step failed", kBegin + 10ms);
  const auto decisions = tree.decided();
  for (const uint64_t communicator : {kWorld, uint64_t{2}, uint64_t{3}}) {
    const Status& cause = on(decisions, communicator).cause;
    INFO(cause.message());
    CHECK(cause.code() == StatusCode::kMismatch);
    CHECK(cause.message().starts_with("7 against 8 (first reported by rank 1"));
    CHECK(has(cause.message(), "; then step failed"));
  }
}

TEST_CASE("an abort waits for what is being decided below it, whatever takes longer") {
  Tree tree;
  tree.report(1, 4, StatusCode::kTimeout, "all_reduce #1 is late");
  CHECK(tree.failures.take_queries() == std::vector<uint64_t>{4});
  tree.report(1, kWorld, StatusCode::kAborted, "step failed", kBegin + 10ms);
  CHECK(tree.failures.decide(kBegin + FailureAggregator::kAnswers - 1ms).empty());
  const auto decisions = tree.decided();
  CHECK(on(decisions, 4).cause.code() == StatusCode::kTimeout);
  CHECK(on(decisions, 3).cause.code() == StatusCode::kTimeout);
}

TEST_CASE("an abort by a rank that has left what failed has its own reason") {
  Tree tree;
  tree.report(1, 4, StatusCode::kMismatch, "7 against 8");
  REQUIRE(tree.decided().size() == 1);
  tree.failures.release(1, 4);
  tree.report(1, kWorld, StatusCode::kAborted, "for another reason", kBegin + 10ms);
  CHECK(on(tree.decided(), 3).cause.code() == StatusCode::kAborted);
}

TEST_CASE("a rank that goes because of an error does not become the cause") {
  Tree tree;
  tree.report(1, 2, StatusCode::kTimeout, "all_reduce #1 is late");
  REQUIRE(tree.decided().size() == 2);
  tree.failures.rank_gone(0, {}, kBegin + 5s);
  const auto last = tree.decided();
  const Status& cause = on(last, kWorld).cause;
  INFO(cause.message());
  CHECK(cause.code() == StatusCode::kTimeout);
  CHECK(has(cause.message(), "all_reduce #1 is late"));
  CHECK(has(cause.message(), "; then rank 0 (n, pid 100) is gone"));
}

TEST_CASE("who joins what has failed hears why") {
  Tree tree;
  REQUIRE_FALSE(tree.failures.join(0, {7, 3, 2})->has_value());
  tree.report(0, 7, StatusCode::kSystem, "no descriptor left");
  tree.failures.release(0, 7);
  CHECK(on(tree.decided(), 7).ranks.empty());
  const auto late = tree.failures.join(1, {7, 3, 2});
  REQUIRE(late.ok());
  REQUIRE(late->has_value());
  CHECK((*late)->ranks == std::vector<uint32_t>{1});
  CHECK(has((*late)->cause.message(), "no descriptor left"));
}

TEST_CASE("communicators that all have left are forgotten, and what was split from them moves up") {
  Tree tree;
  tree.failures.release(0, 2);
  CHECK(tree.failures.knows(2));
  tree.failures.release(1, 2);
  CHECK_FALSE(tree.failures.knows(2));
  tree.report(3, kWorld, StatusCode::kAborted, "enough");
  CHECK(on(tree.decided(), 4).ranks == std::vector<uint32_t>{0, 1});
  for (uint32_t rank = 0; rank < 4; ++rank) {
    tree.failures.rank_left(rank);
  }
  for (const uint64_t communicator : {uint64_t{1}, uint64_t{3}, uint64_t{4}}) {
    CHECK_FALSE(tree.failures.knows(communicator));
  }
}

TEST_CASE("reports on communicators of others are left out") {
  Tree tree;
  tree.report(0, 3, StatusCode::kAborted, "not mine");
  tree.report(0, 77, StatusCode::kAborted, "nobody's");
  CHECK(tree.failures.next_deadline() == Deadline::max());
}

TEST_CASE("all communicators in a circle of waits end with one cause, others go on") {
  Tree tree;
  const auto state = [](uint64_t communicator_id, uint16_t id, uint32_t entered) {
    return RankState{.communicator = id,
                     .channel = 0,
                     .entered = entered,
                     .completed = 0,
                     .operation = entered > 0 ? "barrier" : "",
                     .waiting = "",
                     .communicator_id = communicator_id};
  };
  tree.report(0, 4, StatusCode::kTimeout, "barrier #1 is late");
  CHECK(tree.failures.take_queries() == std::vector<uint64_t>{4});
  tree.failures.answer(0, 4, {state(4, 14, 1), state(kWorld, 11, 0)});
  tree.failures.answer(1, 4, {state(4, 14, 0), state(kWorld, 11, 1)});
  tree.failures.answer(2, 4, {});
  tree.failures.answer(3, 4, {});
  const auto decisions = tree.decided();
  // What was split from the world ends with it.
  REQUIRE(decisions.size() == 4);
  for (const Decision& decision : decisions) {
    CHECK(decision.cause.code() == StatusCode::kMismatch);
    CHECK(has(decision.cause.message(), "ranks wait for each other in a circle: rank 0 is in"));
  }
  CHECK(on(decisions, kWorld).ranks.size() == 4);
}
