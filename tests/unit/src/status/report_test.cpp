#include "status/report.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "must_have.hpp"

using namespace ho;

namespace {

constexpr int64_t kSteadyNow = 1000;
constexpr int64_t kUnixNow = 5'000'000;

// A communicator of ranks 4, 2 and 7 of the job, on rank 2.
struct Part {
  std::shared_ptr<Recorder> recorder = test::must_have(Recorder::create());
  WatchedJob job{.job = 0xc0ffee, .rank = 2, .world_size = 8, .host = "node0"};

  Part() {
    WatchedCommunicator communicator{.key = 9, .id = 3, .name = "group 'a'", .recorder = recorder};
    communicator.ranks = {GlobalRank(4U), GlobalRank(2U), GlobalRank(7U)};
    communicator.rails = {{"eth0", "10.1.0.1", 100000}};
    job.communicators.push_back(communicator);
  }

  OperationRecord begin(uint32_t sequence, uint8_t collective = 2) {
    OperationRecord record;
    record.made.channel = collective == kMessage ? kMessageChannel : 1;
    record.made.frame.collective = collective;
    record.made.frame.algorithm = 3;
    record.made.frame.sequence = sequence;
    record.bytes = 64;
    record.entered_ns = 900;
    recorder->begin(record);
    return record;
  }
  [[nodiscard]] nlohmann::json report(ReportDepth depth) const {
    return nlohmann::json::parse(report_json(job, depth, kSteadyNow, kUnixNow));
  }
};

}  // namespace

TEST_CASE("a report names the ranks of the job, and times of day") {
  Part part;
  OperationRecord record = part.begin(12);
  record.progress.state = OperationProgress::State::kRunning;
  record.progress.wait = {.kind = OperationWait::Kind::kReceive,
                          .on_rail = true,
                          .peer = GlobalRank(2U),
                          .rail = RailIndex(1U),
                          .step = 3,
                          .steps = 7,
                          .since_ns = 950};
  part.recorder->update(record);
  const nlohmann::json report = part.report(ReportDepth::kNow);
  CHECK(report.at("job") == "0000000000c0ffee");
  CHECK(report.at("rank") == 2);
  CHECK(report.at("world_size") == 8);
  CHECK(report.at("time_ns") == kUnixNow);
  const nlohmann::json& communicator = report.at("communicators").at(0);
  CHECK(communicator.at("id") == 3);
  CHECK(communicator.at("name") == "group 'a'");
  CHECK(communicator.at("ranks") == nlohmann::json({4, 2, 7}));
  CHECK(communicator.at("rails").at(0).at("mbit") == 100000);
  const nlohmann::json& operation = communicator.at("operations").at(0);
  CHECK(operation.at("call") == "all_reduce");
  CHECK(operation.at("algorithm") == "ho_ring");
  CHECK(operation.at("number") == 12);
  CHECK(operation.at("state") == "running");
  CHECK(operation.at("entered_ns") == kUnixNow - 100);
  CHECK(operation.at("ended_ns") == 0);
  const nlohmann::json& wait = operation.at("waits_for");
  CHECK(wait.at("what") == "recv");
  CHECK(wait.at("rank") == 7);  // rank 2 of the communicator
  CHECK(wait.at("rail") == 1);
  CHECK(wait.at("step") == 3);
  CHECK(wait.at("steps") == 7);
  CHECK(wait.at("since_ns") == kUnixNow - 50);
}

TEST_CASE("now is what is under way and the last that ended, all is what is kept") {
  Part part;
  for (uint32_t number = 1; number <= 3; ++number) {
    OperationRecord record = part.begin(number);
    part.recorder->end(record, OperationProgress::State::kCompleted, 910);
  }
  static_cast<void>(part.begin(4));
  const auto numbers = [&](ReportDepth depth) {
    std::vector<uint32_t> found;
    const nlohmann::json report = part.report(depth);
    for (const auto& each : report.at("communicators").at(0).at("operations")) {
      found.push_back(each.at("number"));
    }
    return found;
  };
  CHECK(numbers(ReportDepth::kNow) == std::vector<uint32_t>{4, 3});
  CHECK(numbers(ReportDepth::kAll) == std::vector<uint32_t>{1, 2, 3, 4});
  CHECK(part.report(ReportDepth::kNow).at("communicators").at(0).at("completed_bytes") == 192);
}

TEST_CASE("a message says to whom it goes, and one from any rank says none") {
  Part part;
  OperationRecord sent = part.begin(1, kMessage);
  sent.progress.wait.kind = OperationWait::Kind::kSend;
  part.recorder->update(sent);
  OperationRecord received = part.begin(2, kMessage);
  received.progress.wait.kind = OperationWait::Kind::kReceive;
  received.progress.wait.any_peer = true;
  part.recorder->update(received);
  const nlohmann::json report = part.report(ReportDepth::kAll);
  const nlohmann::json& operations = report.at("communicators").at(0).at("operations");
  CHECK(operations.at(0).at("call") == "send");
  CHECK(operations.at(0).at("waits_for").at("rank") == 4);
  CHECK(operations.at(1).at("call") == "recv");
  CHECK_FALSE(operations.at(1).at("waits_for").contains("rank"));
}

TEST_CASE("bytes that are no text do not break a report") {
  Part part;
  part.job.program = "\xff\"\n";
  CHECK(part.report(ReportDepth::kNow).at("program").get<std::string>().find('"') !=
        std::string::npos);
}
