// Answers of ranks, made as ranks make them.
#pragma once

#include <optional>
#include <string>

#include "cli/status/job_view.hpp"
#include "must_have.hpp"
#include "status/report.hpp"

namespace ho::test {

inline constexpr int64_t kReportNow = 10'000'000'000;

struct Rank {
  uint32_t rank = 0;
  std::optional<uint32_t> waits_for = {};  // nothing: it is in no call
  std::string cause = {};
};

inline RankReply report_of(const Rank& rank, uint32_t world_size) {
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
                            .since_ns = kReportNow - 2'000'000'000};
    recorder->update(record);
  } else {
    recorder->end(record, OperationProgress::State::kCompleted, kReportNow - 3'000'000'000);
  }
  WatchedJob job{.job = 0xabc, .rank = rank.rank, .world_size = world_size, .host = "here"};
  job.hosts.assign(world_size, "here");
  job.hosts.back() = "there";
  world.rails = {{"rail0", "10.1.0.1", 100000}};
  job.communicators.push_back(world);
  return {{0xabc, rank.rank, 100},
          100,
          RankAnswer::kAnswered,
          report_json(job, ReportDepth::kNow, kReportNow, kReportNow)};
}

}  // namespace ho::test
