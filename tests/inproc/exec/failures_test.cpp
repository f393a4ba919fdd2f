// What an error of this rank becomes: the job's cause, another rank's, or that somebody has left.
#include "exec/failures.hpp"

#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "test_owner.hpp"

namespace ho {
namespace {

class Nothing final : public Driver::Driven {
 public:
  bool turn(Driver::Lock& /*lock*/) override { return false; }
  void sleep(Driver::Lock& /*lock*/, Deadline /*deadline*/) override {}
  [[nodiscard]] bool latency_bound() const override { return false; }
  [[nodiscard]] bool has_background() const override { return false; }
};

struct FailuresOfRank0 {
  Nothing nothing;
  Driver driver{{}, nothing};
  test::TestOwner owner;
  Failures failures;
  bool needs_left = false;  // some operation needs a rank that has left
  int notice_queries = 0;

  explicit FailuresOfRank0(Failures::Timeouts timeouts = {}) : failures(owner, driver, timeouts) {}
  bool decide(const RunError& error) {
    Driver::Lock lock = driver.lock();
    return failures.decide(lock,
                           error,
                           {[this] {
                              ++notice_queries;
                              return needs_left;
                            },
                            [] { return std::vector<MadeCall>(2); }});
  }
  // As the owner does, which holds no lock of the engine.
  void fail(const Status& why) {
    const Driver::Visit visit(driver);
    failures.fail(why);
  }
};

RunError lost_rank_1() {
  return {Status(StatusCode::kConnection, "rank 1: connection reset"), GlobalRank(1U)};
}

}  // namespace

TEST_CASE("an error is reported once, and what the job decides is the cause") {
  FailuresOfRank0 rank_0;
  rank_0.owner.decide = [&](const RunError&) {
    rank_0.fail(Status(StatusCode::kAborted, "rank 3 called abort"));
  };
  const RunError own{Status(StatusCode::kTimeout, "all_reduce #1 did not complete"), std::nullopt};
  CHECK(rank_0.decide(own));
  CHECK(rank_0.decide(own));
  REQUIRE(rank_0.owner.failures.size() == 1);
  CHECK(has(rank_0.owner.failures.front().status, "all_reduce #1"));
  REQUIRE(rank_0.failures.cause().has_value());
  CHECK(has(*rank_0.failures.cause(), "rank 3 called abort"));
  CHECK(rank_0.notice_queries == 0);  // the error blames no connection
  rank_0.fail(Status(StatusCode::kInternal, "a later one"));
  CHECK(rank_0.failures.cause()->code() == StatusCode::kAborted);
}

TEST_CASE("an error of this rank that nobody answers stands, and is reported once all the same") {
  FailuresOfRank0 rank_0({.decision = std::chrono::milliseconds(0)});
  const RunError own{Status(StatusCode::kTimeout, "all_reduce #1 did not complete"), std::nullopt};
  // Another thread's error, which comes while the first one is being reported.
  rank_0.owner.decide = [&](const RunError& error) {
    if (rank_0.owner.failures.size() == 1) {
      CHECK(rank_0.decide({Status(StatusCode::kSystem, error.status.message()), std::nullopt}));
    }
  };
  CHECK(rank_0.decide(own));
  CHECK(rank_0.owner.failures.size() == 1);
  REQUIRE(rank_0.failures.cause().has_value());
  CHECK(has(*rank_0.failures.cause(), "all_reduce #1"));
}

TEST_CASE("a connection that ends because its peer has left is no failure of the job") {
  FailuresOfRank0 rank_0;
  rank_0.needs_left = true;
  CHECK_FALSE(rank_0.decide(lost_rank_1()));
  CHECK(rank_0.owner.failures.empty());
  CHECK_FALSE(rank_0.failures.cause().has_value());
}

TEST_CASE("a leave notice is new until the operations that it ends have been looked for") {
  FailuresOfRank0 rank_0;
  CHECK_FALSE(rank_0.failures.leave_notices_new());
  PeerLeaveNotice notice;
  notice.rank = GlobalRank(1U);
  notice.name = "rank 1";
  rank_0.failures.peer_left(notice);
  CHECK(rank_0.failures.leave_notices_new());
  CHECK(has(rank_0.failures.leave_notices().any(), "rank 1 has left"));
  rank_0.failures.took_leave_notices();
  CHECK_FALSE(rank_0.failures.leave_notices_new());
}

TEST_CASE("a lost connection is reported at once where nobody passes leave notices on") {
  FailuresOfRank0 rank_0({.leave_notice = std::chrono::hours(1)});
  rank_0.failures.no_more_leave_notices();
  rank_0.owner.decide = [&](const RunError& error) { rank_0.fail(error.status); };
  CHECK(rank_0.decide(lost_rank_1()));
  CHECK(rank_0.owner.failures.size() == 1);
  CHECK(rank_0.failures.cause()->code() == StatusCode::kConnection);
}

TEST_CASE("of a message of another call the ranks are asked first, and what one reports stands") {
  FailuresOfRank0 rank_0;
  rank_0.owner.answer = [&](const MadeCall&) {
    rank_0.fail(Status(StatusCode::kMismatch, "rank 2 waits in another call"));
  };
  RunError error{Status(StatusCode::kMismatch, "an unexpected message"), GlobalRank(1U)};
  error.other_call = true;
  CHECK(rank_0.decide(error));
  CHECK(rank_0.owner.doubts.size() == 2);
  CHECK(rank_0.owner.failures.empty());
  CHECK(has(*rank_0.failures.cause(), "rank 2 waits in another call"));
}

TEST_CASE("a rank that asks waits for the answer before it reports its own error") {
  FailuresOfRank0 rank_0({.comparison = std::chrono::hours(1)});
  std::thread other;
  rank_0.owner.answer = [&](const MadeCall&) {
    if (!other.joinable()) {
      other = std::thread([&] { rank_0.fail(Status(StatusCode::kMismatch, "rank 2 differs")); });
    }
  };
  // Without a wait the report would come first: it holds up the answer.
  rank_0.owner.decide = [&](const RunError&) { other.join(); };
  RunError error{Status(StatusCode::kMismatch, "an unexpected message"), GlobalRank(1U)};
  error.other_call = true;
  CHECK(rank_0.decide(error));
  if (other.joinable()) {
    other.join();
  }
  CHECK(rank_0.owner.failures.empty());
  CHECK(has(*rank_0.failures.cause(), "rank 2 differs"));
}

}  // namespace ho
