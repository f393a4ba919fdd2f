#include "cli/status/job_view.hpp"

#include <optional>

#include "catch.hpp"
#include "has.hpp"
#include "must_have.hpp"
#include "status/report.hpp"

using namespace ho;

namespace {

constexpr int64_t kNow = 10'000'000'000;

struct Rank {
  uint32_t rank = 0;
  std::optional<uint32_t> waits_for = {};  // nothing: it is in no call
  std::string cause = {};
};

RankReply answer_of(const Rank& rank, uint32_t world_size) {
  const auto recorder = test::must_have(Recorder::create());
  WatchedCommunicator world{.recorder = recorder, .cause = rank.cause};
  for (uint32_t each = 0; each < world_size; ++each) {
    world.ranks.emplace_back(each);
  }
  OperationRecord record;
  record.made.frame.collective = 2;
  record.made.frame.sequence = 5;
  record.bytes = 1 << 20;
  record.entered_ns = 1;
  record.progress.pieces = 8;
  recorder->begin(record);
  if (rank.waits_for) {
    record.progress.wait = {.kind = OperationWait::Kind::kReceive,
                            .on_rail = true,
                            .peer = GlobalRank(*rank.waits_for),
                            .rail = RailIndex(0U),
                            .step = 1,
                            .steps = 3,
                            .since_ns = kNow - 2'000'000'000};
    recorder->update(record);
  } else {
    recorder->end(record, OperationProgress::State::kCompleted, kNow - 3'000'000'000);
  }
  WatchedJob job{.job = 0xabc, .rank = rank.rank, .world_size = world_size, .host = "here"};
  job.hosts.assign(world_size, "here");
  job.hosts.back() = "there";
  job.communicators.push_back(world);
  return {{0xabc, rank.rank, 100},
          100,
          RankAnswer::kAnswered,
          report_json(job, ReportDepth::kNow, kNow, kNow)};
}

}  // namespace

TEST_CASE("waits are followed to the rank that waits for none") {
  const JobView view = view_of(
      {answer_of({0, 1}, 4), answer_of({1, 2}, 4), answer_of({2, {}}, 4), answer_of({3, 2}, 4)});
  CHECK(view.waited_for == std::vector<uint32_t>{2});
  CHECK(view.ranks[0].state == "waits");
  CHECK(view.ranks[2].state == "idle");
  CHECK(view.ranks[2].calls == 1);
  const std::string table = job_table(view);
  CHECK(has(table, "4 of 4 ranks answer"));
  CHECK(has(table, "all_reduce #5 of 1 MiB, 0 of 8 pieces"));
  CHECK(has(table, "recv from rank 1, rail 0, step 1 of 3, for 2 s"));
  CHECK(has(table, "Ranks wait in the end for rank 2 (here): idle, since 3 s"));
}

TEST_CASE("a circle of waits has no end to be named") {
  const JobView view = view_of({answer_of({0, 1}, 3), answer_of({1, 2}, 3), answer_of({2, 0}, 3)});
  CHECK(view.waited_for.empty());
  CHECK_FALSE(has(job_table(view), "in the end"));
}

TEST_CASE("ranks without an answer are named with what is known of them") {
  RankReply stopped{{0xabc, 1, 101}, 101, RankAnswer::kStopped, ""};
  const JobView view = view_of({answer_of({0, 3}, 4), stopped});
  REQUIRE(view.ranks.size() == 4);
  CHECK(view.answered() == 1);
  CHECK(view.ranks[1].state == "stopped");
  CHECK(view.ranks[1].host == "here");
  CHECK(view.ranks[2].state == "missing");
  CHECK(view.ranks[2].call == "no process of it listens here");
  CHECK(view.ranks[3].state == "missing");
  CHECK(view.ranks[3].call == "on another host: ask there");
  CHECK(view.waited_for == std::vector<uint32_t>{3});
}

TEST_CASE("a rank whose communicator has ended says why") {
  const JobView view = view_of({answer_of({0, {}, "rank 1 (node1) is gone"}, 1)});
  CHECK(view.ranks[0].state == "failed");
  CHECK(has(job_table(view), "rank 1 (node1) is gone"));
}

TEST_CASE("what no rank of ours would answer is named and not believed") {
  RankReply other = answer_of({0, {}}, 2);
  for (const char* text : {"",
                           "{",
                           "[]",
                           "{\"host\":\"\"}",
                           "{\"host\":\"a\",\"time_ns\":\"b\"}",
                           "{\"host\":\"a\",\"time_ns\":1,\"communicators\":[3]}"}) {
    INFO(text);
    const RankReply odd{{0xabc, 1, 7}, 7, RankAnswer::kAnswered, text};
    CHECK(view_of({other, odd}).ranks[1].state == "answers what is no report");
    CHECK(view_of({odd}).ranks.size() == 1);
  }
  // A terminal is not driven by a program's name.
  other.answer.replace(other.answer.find("\"program\":\"\""), 12, "\"program\":\"\\u001b[2J\"");
  CHECK_FALSE(has(job_table(view_of({other})), "\x1b"));
}
