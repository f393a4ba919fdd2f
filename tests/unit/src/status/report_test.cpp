#include "status/report.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "must_have.hpp"
#include "os/interface_bytes.hpp"

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

TEST_CASE("what begins while a report is made does not begin after it") {
  Part part;
  OperationRecord record = part.begin(12);
  record.progress.state = OperationProgress::State::kRunning;
  record.progress.wait = {.kind = OperationWait::Kind::kSend, .since_ns = kSteadyNow + 5};
  part.recorder->update(record);
  const nlohmann::json report = part.report(ReportDepth::kNow);
  const auto& operation = report.at("communicators").at(0).at("operations").at(0);
  CHECK(operation.at("waits_for").at("since_ns") == report.at("time_ns"));
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

TEST_CASE("communicators of NCCL are told by the connections and rails that they use") {
  WatchedJob job{.job = 0xc0ffee, .rank = 2, .world_size = 8, .host = "node0"};
  job.devices = {{"eth0", "10.1.0.1", 25000}, {"eth1", "10.2.0.1", 25000}};
  job.network = [] {
    WatchedConnection own{.comm_id = 7, .context = 1, .device = "eth0", .peer = "10.1.0.2:4000"};
    own.completed = 3;
    own.completed_bytes = 300;
    own.rail_use = {.failovers = 2, .links = 1, .away = 0.75};
    WatchedConnection late = own;
    late.context = 2;  // the rail's
    late.rail_use.away = 0;
    late.sends = true;
    late.pending = 1;
    late.since_ns = 950;
    late.peer = "10.1.0.3:4001 (node9, NCCL_HOSTID RANK 1, RANK 5, pid 7)";
    WatchedConnection early = late;
    early.since_ns = 940;
    early.sends = false;
    early.pending_bytes = 77;
    early.rail_use = {.failovers = 2, .lost = 1};
    WatchedConnection another{
        .comm_id = 8, .context = 3, .peer = "RANK x on node1", .failed = true};
    another.pending = 1;
    WatchedRing ring{.comm_id = 7, .context = 2, .member = 1, .members = 4, .completed = 10};
    ring.completed_bytes = 1000;
    ring.calls = {{"all_reduce", 11, 640, 900}};
    return WatchedNetwork{{ring}, {own, late, early, another}};
  };
  const auto report =
      nlohmann::json::parse(report_json(job, ReportDepth::kNow, kSteadyNow, kUnixNow));
  REQUIRE(report.at("communicators").size() == 2);
  const nlohmann::json& first = report.at("communicators").at(0);
  CHECK(first.at("name") == "NCCL 0000000000000007");
  CHECK(first.at("cause") == "");
  CHECK(first.at("completed") == 13);  // what a rail's connections move is its calls'
  CHECK(first.at("completed_bytes") == 1300);
  CHECK(first.at("failovers") == 6);
  CHECK(first.at("rails").at(0).at("interface") == "eth0");
  CHECK(first.at("rails").at(0).at("address") == "10.1.0.1");
  CHECK(first.at("rails").at(0).at("failovers") == 6);
  CHECK(first.at("rails").at(0).at("links") == 2);
  CHECK(first.at("rails").at(0).at("lost_links") == 1);
  CHECK(first.at("rails").at(0).at("own_share").get<double>() == Approx(1.25 / 3));
  CHECK_FALSE(first.at("rails").at(1).contains("own_share"));
  const nlohmann::json& call = first.at("operations").at(0);
  CHECK(call.at("call") == "all_reduce");
  CHECK(call.at("number") == 11);
  CHECK(call.at("member") == 1);
  CHECK(call.at("entered_ns") == kUnixNow - 100);
  CHECK(call.at("waits_for").at("since_ns") == kUnixNow - 60);
  CHECK(call.at("waits_for").at("what") == "recv");
  CHECK(call.at("waits_for").at("rank") == 5);
  const nlohmann::json& connections = first.at("connections");
  CHECK(connections.at(0).at("collnet") == false);
  CHECK_FALSE(connections.at(0).contains("waits_for"));
  CHECK(connections.at(2).at("collnet") == true);
  CHECK(connections.at(2).at("pending_bytes") == 77);
  const nlohmann::json& second = report.at("communicators").at(1);
  CHECK(second.at("cause") ==
        "the connection from RANK x on node1 over  has failed; see this rank's log");
  CHECK_FALSE(second.at("connections").at(0).at("waits_for").contains("rank"));
}

TEST_CASE("a rail has the counts of its interface where there is one of the name") {
  Part part;
  part.job.communicators.at(0).rails = {{"lo", "127.0.0.1", 0}, {"no such", "10.1.0.1", 0}};
  const nlohmann::json rails = part.report(ReportDepth::kNow).at("communicators").at(0).at("rails");
  CHECK(rails.at(0).at("received_bytes").get<uint64_t>() <= interface_bytes().at("lo").received);
  CHECK_FALSE(rails.at(1).contains("sent_bytes"));
}

TEST_CASE("a rail says how often its links have left it and what it carries of theirs") {
  Part part;
  part.job.communicators.at(0).rails.push_back({"eth1", "10.2.0.1", 100000});
  const std::vector<RailUse> use{{.failovers = 3, .links = 6, .away = 1, .lost = 2}, {}};
  part.recorder->set_rail_use(use);
  const nlohmann::json communicator = part.report(ReportDepth::kNow).at("communicators").at(0);
  CHECK(communicator.at("failovers") == 3);
  CHECK(communicator.at("rails").at(0).at("failovers") == 3);
  CHECK(communicator.at("rails").at(0).at("links") == 6);
  CHECK(communicator.at("rails").at(0).at("own_share") == 0.625);
  CHECK(communicator.at("rails").at(0).at("lost_links") == 2);
  CHECK(communicator.at("rails").at(1).at("failovers") == 0);
  CHECK_FALSE(communicator.at("rails").at(1).contains("own_share"));
  part.recorder->set_rail_use(std::vector<RailUse>{{.lost = 2}, {}});
  const nlohmann::json none = part.report(ReportDepth::kNow).at("communicators").at(0);
  CHECK(none.at("rails").at(0).at("own_share") == 0);  // what they do not send it does not carry
}

TEST_CASE("the last collectives say for how long this rank was in them") {
  Part part;
  for (uint32_t number = 1; number <= 100; ++number) {
    OperationRecord record = part.begin(number);
    part.recorder->end(record, OperationProgress::State::kCompleted, 900 + number);
  }
  OperationRecord broadcast = part.begin(101, 3);  // its root leaves before others have entered
  part.recorder->end(broadcast, OperationProgress::State::kCompleted, 910);
  OperationRecord failed = part.begin(102);
  part.recorder->end(failed, OperationProgress::State::kFailed, 910);
  static_cast<void>(part.begin(103));
  const nlohmann::json recent =
      part.report(ReportDepth::kNow).at("communicators").at(0).at("recent");
  REQUIRE(recent.size() == 64);
  CHECK(recent.at(0) == nlohmann::json({1, 100, 100}));
  CHECK(recent.at(63) == nlohmann::json({1, 37, 37}));
  CHECK(part.report(ReportDepth::kAll).at("communicators").at(0).at("recent").empty());
}

TEST_CASE("a report for another host has a bound, and says what it leaves out") {
  Part part;
  part.job.hosts.assign(8, "node0");
  part.job.program = "train.py";
  for (uint32_t number = 1; number <= 1000; ++number) {
    static_cast<void>(part.begin(number));
  }
  for (uint64_t key = 10; key < 200; ++key) {
    part.job.communicators.push_back(part.job.communicators.front());
    part.job.communicators.back().key = key;
  }
  constexpr size_t kMaxBytes = 20'000;
  const std::string text =
      report_json(part.job, ReportDepth::kElsewhere, kSteadyNow, kUnixNow, kMaxBytes);
  CHECK(text.size() <= kMaxBytes);
  CHECK(text.size() > kMaxBytes / 2);
  const auto report = nlohmann::json::parse(text);
  const nlohmann::json& communicators = report.at("communicators");
  CHECK(report.at("left_out").get<size_t>() + communicators.size() == 191);
  CHECK(communicators.at(0).at("key") == "0000000000000009");
  CHECK(communicators.at(0).at("operations").size() == 1);  // the first that is under way
  CHECK(communicators.at(0).at("operations").at(0).at("number") == 1);
  CHECK(communicators.at(0).at("ranks").empty());
  CHECK(report.at("hosts").empty());
  CHECK(report.at("program") == "");
}
