#include "bootstrap/control/gather_table.hpp"

#include "catch.hpp"
#include "has.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

using Outcomes = std::vector<GatherTable::Outcome>;

const Deadline kBegin{std::chrono::seconds(1000)};

// Ranks 0 to 3 have met and gathered "infos"; 0 and 1 share a host, 2 and 3 another.
struct Job {
  GatherTable table{4};
  uint64_t calls = 0;

  Job() {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      CHECK(give(rank, "infos", {}, kBegin).has_value() == (rank == 3));
    }
  }
  std::optional<GatherTable::Outcome> give(uint32_t rank,
                                           const std::string& tag,
                                           std::vector<uint32_t> members,
                                           Deadline now,
                                           std::chrono::milliseconds time = 1000ms) {
    return table.add({rank, ++calls},
                     {.tag = tag,
                      .timeout_ms = static_cast<uint32_t>(time.count()),
                      .members = std::move(members),
                      .blob = {}},
                     now);
  }
  // Of the ranks that do not get their answer, in the order of the outcomes.
  std::vector<Status> fail(Deadline now) {
    std::vector<Status> errors;
    for (const GatherTable::Outcome& outcome : table.expire(now)) {
      errors.push_back(outcome.error);
    }
    return errors;
  }
};

}  // namespace

TEST_CASE("a rank that gives nothing is named, with its last gather and how long ago") {
  Job job;
  for (const uint32_t rank : {0U, 2U, 3U}) {
    CHECK_FALSE(job.give(rank, "ready", {}, kBegin + 10ms).has_value());
  }
  CHECK(job.fail(kBegin + 1009ms).empty());
  const auto errors = job.fail(kBegin + 1010ms);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code() == StatusCode::kTimeout);
  CHECK(errors[0].message() ==
        "all_gather \"ready\": 3 of 4 ranks came within 1000 ms; rank 1 has not answered since "
        "all_gather \"infos\", 1010 ms ago: it is stopped, still computing, or in another call; "
        "missing: rank 1");
}

TEST_CASE("ranks that have given nothing since they met are named with that") {
  GatherTable table(3);
  CHECK_FALSE(
      table.add({1, 1}, {.tag = "infos", .timeout_ms = 5, .members = {}, .blob = {}}, kBegin)
          .has_value());
  const auto outcomes = table.expire(kBegin + 5ms);
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].error.code() == StatusCode::kTimeout);
  CHECK(has(outcomes[0].error.message(),
            "ranks 0, 2 have not answered; the longest, rank 0, since the ranks found each other: "
            "they are"));
}

TEST_CASE("a gather ends at the earliest deadline of those who wait in it, in any order") {
  const auto [first, second] = GENERATE(std::pair(5s, 9s), std::pair(9s, 5s));
  Job job;
  CHECK_FALSE(job.give(0, "ready", {}, kBegin, first).has_value());
  CHECK_FALSE(job.give(1, "ready", {}, kBegin, second).has_value());
  CHECK(job.table.next_deadline() == kBegin + 5s);
  CHECK(job.fail(kBegin + 4999ms).empty());
  const auto errors = job.fail(kBegin + 5s);
  REQUIRE(errors.size() == 1);
  CHECK(has(errors[0].message(), "2 of 4 ranks came within 5000 ms"));
}

TEST_CASE("who waits for a rank that gives nothing is a victim, not a mismatch") {
  Job job;
  // Rank 1 is stopped: rank 0 waits for its shared memory, the others for endpoints of both.
  CHECK_FALSE(job.give(0, "shared memory", {0, 1}, kBegin, 1100ms).has_value());
  CHECK_FALSE(job.give(2, "endpoints", {}, kBegin).has_value());
  CHECK_FALSE(job.give(3, "endpoints", {}, kBegin).has_value());
  const auto errors = job.fail(kBegin + 1000ms);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code() == StatusCode::kTimeout);
  CHECK(has(errors[0].message(), "; rank 1 has not answered since all_gather \"infos\", 1000 ms"));
  CHECK(has(errors[0].message(),
            "missing: ranks 0, 1; rank 0 is in all_gather \"shared memory\" with other members"));
}

TEST_CASE("a victim whose own gather has failed first is a victim still, until it comes again") {
  Job job;
  CHECK_FALSE(job.give(0, "shared memory", {0, 1}, kBegin, 900ms).has_value());
  CHECK_FALSE(job.give(2, "endpoints", {}, kBegin).has_value());
  REQUIRE(job.fail(kBegin + 900ms).size() == 1);
  const auto errors = job.fail(kBegin + 1000ms);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code() == StatusCode::kTimeout);
  INFO(errors[0].message());
  CHECK(has(errors[0].message(), "; ranks 1, 3 have not answered;"));

  // Rank 1 goes on: rank 0 is not excused by it any more.
  CHECK_FALSE(job.give(1, "once more", {}, kBegin + 2000ms).has_value());
  CHECK_FALSE(job.give(2, "once more", {}, kBegin + 2000ms).has_value());
  CHECK_FALSE(job.give(3, "once more", {}, kBegin + 2000ms).has_value());
  const auto later = job.fail(kBegin + 3000ms);
  REQUIRE(later.size() == 1);
  CHECK(has(later[0].message(), "; rank 0 has not answered since all_gather \"shared memory\""));
}

TEST_CASE("a gather that failed before a rank was waited for excuses it no more") {
  Job job;
  CHECK_FALSE(job.give(0, "split of 0 and 1", {0, 1}, kBegin).has_value());
  REQUIRE(job.fail(kBegin + 1000ms).size() == 1);
  // Rank 0 computes.
  CHECK_FALSE(job.give(2, "split of 0 and 2", {0, 2}, kBegin + 1001ms).has_value());
  const auto errors = job.fail(kBegin + 2001ms);
  REQUIRE(errors.size() == 1);
  CHECK(
      has(errors[0].message(), "; rank 0 has not answered since all_gather \"split of 0 and 1\""));
}

TEST_CASE("waits are followed through several gathers, over communicators") {
  Job job;
  CHECK_FALSE(job.give(2, "of 2, 3", {2, 3}, kBegin, 5000ms).has_value());
  CHECK_FALSE(job.give(1, "of 1, 2", {1, 2}, kBegin, 5000ms).has_value());
  CHECK_FALSE(job.give(0, "split", {0, 1}, kBegin).has_value());
  const auto errors = job.fail(kBegin + 1000ms);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code() == StatusCode::kTimeout);
  CHECK(has(errors[0].message(), "; rank 3 has not answered since"));
}

TEST_CASE("ranks that wait for each other in a circle disagree") {
  Job job;
  CHECK_FALSE(job.give(0, "colours", {0, 1, 2}, kBegin).has_value());
  CHECK_FALSE(job.give(1, "shapes", {0, 1, 2}, kBegin).has_value());
  CHECK_FALSE(job.give(3, "behind them", {0, 3}, kBegin).has_value());
  const auto errors = job.fail(kBegin + 1000ms);
  REQUIRE(errors.size() == 3);
  for (const Status& error : errors) {
    CHECK(error.code() == StatusCode::kMismatch);
  }
  CHECK(has(errors[0].message(), "missing: ranks 1, 2; rank 1 is in all_gather \"shapes\""));
  CHECK(has(errors[1].message(), "missing: ranks 0, 2; rank 0 is in all_gather \"colours\""));
}

TEST_CASE("who comes late to a gather that has failed hears why at once, and only once") {
  Job job;
  CHECK_FALSE(job.give(0, "split", {}, kBegin).has_value());
  CHECK_FALSE(job.give(2, "split", {}, kBegin).has_value());
  const auto errors = job.fail(kBegin + 1000ms);
  REQUIRE(errors.size() == 1);
  for (const uint32_t late : {1U, 3U}) {
    // Of other members, or another tag, it is another gather.
    CHECK_FALSE(job.give(late, "another split", {}, kBegin + 1200ms).has_value());
    const auto reported = job.give(late, "split", {}, kBegin + 1250ms);
    REQUIRE(reported.has_value());
    CHECK(reported->waiters.size() == 1);
    CHECK(reported->waiters[0].rank == late);
    CHECK(reported->error.code() == errors[0].code());
    CHECK(reported->error.message() ==
          errors[0].message() + "; rank " + std::to_string(late) + " came 250 ms after that");
    // Once more is another try.
    CHECK_FALSE(job.give(late, "split", {}, kBegin + 1260ms).has_value());
  }
  CHECK_FALSE(job.give(0, "split", {}, kBegin + 1270ms).has_value());
  CHECK(job.give(2, "split", {}, kBegin + 1270ms)->error.ok());
}

TEST_CASE("a gather that failed long ago is forgotten, and one of ranks that have ended at once") {
  GatherTable table(2);
  const auto give = [&table](uint32_t rank, uint64_t number, Deadline now) {
    return table.add({rank, number},
                     {.tag = std::to_string(number), .timeout_ms = 5, .members = {}, .blob = {}},
                     now);
  };
  constexpr uint64_t kMany = 2000;
  for (uint64_t number = 0; number < kMany; ++number) {
    CHECK_FALSE(give(0, number, kBegin + std::chrono::milliseconds(10 * number)).has_value());
    CHECK(table.expire(kBegin + std::chrono::milliseconds(10 * number + 5)).size() == 1);
  }
  CHECK_FALSE(give(1, 0, kBegin + 60s).has_value());
  CHECK_FALSE(give(1, kMany - 1, kBegin + 60s)->error.ok());
}

TEST_CASE("one rank cannot make rank 0 hold without end") {
  Job job;
  constexpr size_t kMuch = size_t{1} << 20U;
  size_t held = 0;
  std::optional<GatherTable::Outcome> refused;
  for (uint64_t call = 0; !refused && call < 300; ++call) {
    refused = job.table.add({1, call},
                            {.tag = "split " + std::to_string(call),
                             .timeout_ms = 1000,
                             .members = {},
                             .blob = wire::Buffer(kMuch)},
                            kBegin);
    held += refused ? 0 : kMuch;
  }
  REQUIRE(refused);
  CHECK(held <= GatherTable::kMaxHeldBytes);
  CHECK(has(refused->error, "rank 1 waits in 31 others"));
  CHECK(has(refused->error, "more than 32 MiB"));
  CHECK(refused->waiters.front().rank == 1);
  // The others are served.
  CHECK_FALSE(job.give(2, "split 0", {}, kBegin).has_value());
  CHECK_FALSE(job.give(0, "split 0", {}, kBegin).has_value());
  CHECK(job.give(3, "split 0", {}, kBegin).has_value());
}
