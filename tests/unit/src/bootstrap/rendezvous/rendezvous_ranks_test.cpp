#include "bootstrap/rendezvous/rendezvous_ranks.hpp"

#include <string>

#include "bootstrap/messages/messages.hpp"
#include "catch.hpp"

namespace ho {
namespace {

constexpr uint32_t kWorld = 3;

Deadline at(int ms) {
  return Deadline(std::chrono::milliseconds(ms));
}

wire::RankClaim claim(uint32_t rank, uint32_t timeout_ms = 60000) {
  return {.rank = rank,
          .world_size = kWorld,
          .pid = 100 + rank,
          .timeout_ms = timeout_ms,
          .host = "node"};
}

// Rank 0 has come, at 0 ms; it waits until 50 s.
RendezvousRanks with_rank_0() {
  RendezvousRanks ranks(
      {.world_size = kWorld, .own = claim(0), .address = "tcp://node:4000", .deadline = at(50000)});
  ranks.enter(claim(0), at(0));
  return ranks;
}

bool has(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

TEST_CASE("a rendezvous is complete when all ranks have come") {
  RendezvousRanks ranks = with_rank_0();
  CHECK_FALSE(ranks.complete().has_value());
  for (const uint32_t rank : {2U, 1U}) {
    CHECK(ranks.judge(claim(rank)).ok());
    ranks.enter(claim(rank), at(0));
  }
  REQUIRE(ranks.complete().has_value());
  CHECK(ranks.complete()->ok());
  CHECK(ranks.names()[2] == "rank 2 (node, pid 102)");
  ranks.leave(2);
  CHECK_FALSE(ranks.complete().has_value());
}

TEST_CASE("a rank that has come and given up is the cause once the others are here") {
  RendezvousRanks ranks = with_rank_0();
  ranks.enter(claim(1), at(0));
  FailureReport report;
  report.code = StatusCode::kSystem;
  report.text = "no descriptors";
  ranks.note_gave_up(1, {.header = {}, .body = wire::encode(report)});
  ranks.leave(1);
  CHECK_FALSE(ranks.complete().has_value());
  ranks.enter(claim(2), at(0));
  REQUIRE(ranks.complete().has_value());
  CHECK(ranks.complete()->code() == StatusCode::kSystem);
  CHECK(has(*ranks.complete(), "no descriptors (reported by rank 1 (node, pid 101))"));
}

TEST_CASE("the rank whose deadline passes first is told who is missing") {
  RendezvousRanks ranks = with_rank_0();
  ranks.enter(claim(2, 2000), at(1000));
  CHECK(ranks.next_deadline() == at(3000));
  CHECK(ranks.late(at(2999), {}).ok());
  const Status late = ranks.late(at(3000), {"", "a stranger came"});
  CHECK(late.code() == StatusCode::kTimeout);
  CHECK(has(late,
            "2 of 3 ranks arrived at tcp://node:4000 before the deadline of rank 2 (node, pid 102) "
            "passed; missing: rank 1; a stranger came; see the output"));
  ranks.leave(2);  // it waits no longer
  CHECK(ranks.late(at(49999), {}).ok());
  CHECK(has(ranks.late(at(50000), {}), "1 of 3 ranks arrived"));
}

TEST_CASE("where every missing rank was refused nobody is waited for longer than a moment") {
  RendezvousRanks ranks = with_rank_0();
  ranks.enter(claim(1), at(0));
  CHECK(ranks.all_refused(at(10)).ok());
  const Status twice = ranks.judge(claim(1));
  CHECK(twice.code() == StatusCode::kMismatch);
  CHECK(has(twice, "rank 1 has come twice"));
  CHECK(ranks.all_refused(at(10)).ok());
  CHECK(ranks.next_deadline() == at(510));
  CHECK(ranks.all_refused(at(509)).ok());
  const Status refused = ranks.all_refused(at(510));
  CHECK(refused.code() == StatusCode::kMismatch);
  CHECK(has(refused, "missing: rank 2; rank 1 has come twice"));
}

TEST_CASE("a rank of another world size is not expected again unless it is of another job") {
  RendezvousRanks ranks = with_rank_0();
  ranks.enter(claim(1), at(0));
  wire::RankClaim other = claim(2);
  other.world_size = 4;
  other.job = "HORING_JOB_ID=7";
  wire::RankClaim own = other;
  own.job = "";
  CHECK(has(ranks.judge(other), "another job has its rendezvous at tcp://node:4000"));
  CHECK(ranks.all_refused(at(0)).ok());
  CHECK(ranks.all_refused(at(500)).ok());
  CHECK(has(ranks.judge(own), "rank 0 (node, pid 100) was started with a world size of 3"));
  CHECK(ranks.all_refused(at(0)).ok());
  CHECK(ranks.all_refused(at(500)).code() == StatusCode::kMismatch);
}

TEST_CASE("ranks that were refused for the job key are named where they are missing") {
  RendezvousRanks ranks = with_rank_0();
  ranks.enter(claim(1), at(0));
  const wire::Buffer bytes = wire::encode(claim(2));
  const Status key(StatusCode::kUnauthenticated, "the job keys differ");
  CHECK(ranks.note_key_refused(bytes, "10.0.0.9", key));
  CHECK_FALSE(ranks.note_key_refused(bytes, "10.0.0.9", {StatusCode::kTimeout, "late"}));
  const Status late = ranks.late(at(50000), {});
  CHECK(late.code() == StatusCode::kUnauthenticated);
  CHECK(has(late, "rank 2 (node, pid 102) from 10.0.0.9 was refused for the job key"));
}

}  // namespace
}  // namespace ho
