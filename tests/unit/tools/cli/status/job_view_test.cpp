#include "cli/status/job_view.hpp"

#include "catch.hpp"
#include "cli/status/rails_view.hpp"
#include "has.hpp"
#include "reports.hpp"

using namespace ho;
using test::report_of;

TEST_CASE("waits are followed to the rank that waits for none") {
  const JobView view = view_of(
      {report_of({0, 1}, 4), report_of({1, 2}, 4), report_of({2, {}}, 4), report_of({3, 2}, 4)});
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

TEST_CASE("a rank at work ends a wait that is a long one, and one that is stopped any") {
  const auto after = [](int64_t ns, const std::vector<RankReply>& others) {
    std::vector<RankReply> replies{report_of({0, 1}, 2)};
    nlohmann::json report = nlohmann::json::parse(replies[0].answer);
    for (nlohmann::json& each : report.at("communicators").at(0).at("operations")) {
      each.at("waits_for").at("since_ns") = test::kReportNow - ns;
    }
    replies[0].answer = report.dump();
    replies.insert(replies.end(), others.begin(), others.end());
    return view_of(replies).waited_for;
  };
  const std::vector<uint32_t> rank_1{1};
  CHECK(after(999'000'000, {report_of({1, {}}, 2)}).empty());
  CHECK(after(1'000'000'000, {report_of({1, {}}, 2)}) == rank_1);
  CHECK(after(1'000'000, {{{0xabc, 1, 101}, 101, RankAnswer::kStopped, ""}}) == rank_1);
}

TEST_CASE("a rank whose communicators have all ended is told from one that has made none yet") {
  RankReply reply = report_of({0, {}}, 1);
  nlohmann::json report = nlohmann::json::parse(reply.answer);
  report["communicators"] = nlohmann::json::array();
  reply.answer = report.dump();
  CHECK(view_of({reply}).ranks[0].state == "starts");
  report["ended"] = 2;
  reply.answer = report.dump();
  CHECK(view_of({reply}).ranks[0].state == "ended");
}

TEST_CASE("a circle of waits has no end to be named") {
  const JobView view = view_of({report_of({0, 1}, 3), report_of({1, 2}, 3), report_of({2, 0}, 3)});
  CHECK(view.waited_for.empty());
  CHECK_FALSE(has(job_table(view), "in the end"));
}

TEST_CASE("a call says in which group it is, and of how many ranks") {
  const auto call_of = [](const char* name, uint32_t id, uint64_t size) {
    RankReply reply = report_of({0, 1}, 4);
    nlohmann::json report = nlohmann::json::parse(reply.answer);
    auto& communicator = report.at("communicators").at(0);
    communicator["name"] = name;
    communicator["id"] = id;
    communicator["size"] = size;
    communicator["key"] = "00000000000000ff";
    reply.answer = report.dump();
    const std::string call = view_of({reply}).ranks[0].call;
    return call.substr(call.find("pieces") + 6);
  };
  CHECK(call_of("", 0, 4) == "");
  CHECK(call_of("", 0, 2) == " in group 00000000000000ff of 2 ranks");
  CHECK(call_of("", 7, 2) == " in communicator 7 of 2 ranks");
  CHECK(call_of("group 'a'", 0, 3) == " in group 'a' of 3 ranks");
  CHECK(call_of("group 'a'", 0, 4) == " in group 'a'");
  CHECK(call_of("group 'a'", 0, 0) == " in group 'a'");  // as older releases say it
}

TEST_CASE("hosts are those that any rank of this host knows") {
  RankReply first = report_of({0, {}}, 4);
  RankReply second = report_of({1, {}}, 4);
  const auto know = [](RankReply& reply, const std::vector<std::string>& hosts) {
    nlohmann::json report = nlohmann::json::parse(reply.answer);
    report["hosts"] = hosts;
    reply.answer = report.dump();
  };
  know(first, {"here", "", "there", ""});
  know(second, {"", "here", "", "far"});
  const JobView view = view_of({first, second});
  REQUIRE(view.ranks.size() == 4);
  CHECK(view.ranks[2].host == "there");
  CHECK(view.ranks[3].host == "far");
}

TEST_CASE("ranks without an answer are named with what is known of them") {
  RankReply stopped{{0xabc, 1, 101}, 101, RankAnswer::kStopped, ""};
  const JobView view = view_of({report_of({0, 3}, 4), stopped});
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
  const JobView view = view_of({report_of({0, {}, "rank 1 (node1) is gone"}, 1)});
  CHECK(view.ranks[0].state == "failed");
  CHECK(has(job_table(view), "rank 1 (node1) is gone"));
}

TEST_CASE("what no rank of ours would answer is named and not believed") {
  RankReply other = report_of({0, {}}, 2);
  for (const char* text : {"",
                           "{",
                           "[]",
                           "{\"host\":\"\"}",
                           "{\"host\":\"a\",\"time_ns\":\"b\"}",
                           "{\"host\":\"a\",\"time_ns\":1,\"communicators\":[]}",
                           "{\"host\":\"a\",\"time_ns\":1,\"communicators\":[],\"hosts\":3}",
                           "{\"host\":\"a\",\"time_ns\":1,\"communicators\":[3]}"}) {
    INFO(text);
    const RankReply odd{{0xabc, 1, 7}, 7, RankAnswer::kAnswered, text};
    CHECK(view_of({other, odd}).ranks[1].state == "answers what is no report");
    CHECK(view_of({odd}).ranks.size() == 1);
  }
  const RankReply deep{{0xabc, 1, 7}, 7, RankAnswer::kAnswered, std::string(1U << 20U, '[')};
  CHECK(view_of({other, deep}).ranks[1].state == "answers what is no report");
  // A terminal is not driven by a program's name.
  other.answer.replace(other.answer.find("\"program\":\"\""), 12, "\"program\":\"\\u001b[2J\"");
  CHECK_FALSE(has(job_table(view_of({other})), "\x1b"));
}

TEST_CASE("rates of rails are those of the time between two looks") {
  RankReply early = report_of({0, {}}, 1);
  RankReply late = early;
  const auto with = [](RankReply& reply, uint64_t sent, uint64_t received, int64_t time_ns) {
    nlohmann::json report = nlohmann::json::parse(reply.answer);
    report["time_ns"] = time_ns;
    auto& rail = report.at("communicators").at(0).at("rails").at(0);
    rail["sent_bytes"] = sent;
    rail["received_bytes"] = received;
    reply.answer = report.dump();
  };
  with(early, 1'000'000, 9'000'000, 10'000'000'000);
  with(late, 5'000'000, 1'000'000, 12'000'000'000);
  const JobView before = view_of({early});
  const JobView now = view_of({late});
  CHECK_FALSE(has(job_table(now), "MB/s"));
  const std::string table = job_table(now, &before);
  CHECK(has(table, "2 MB/s"));
  // Counts that began again say nothing.
  CHECK(table.find("/s", table.find("2 MB/s") + 6) == std::string::npos);
}

TEST_CASE("under NCCL the connection that has waited longest is what a rank waits for") {
  WatchedJob job{.job = 0xabc, .rank = 0, .world_size = 2, .host = "here"};
  job.network = [] {
    WatchedNetwork network;
    WatchedConnection one{
        .comm_id = 7, .context = 1, .device = "eth0", .sends = true, .pending = 2};
    one.peer = "10.1.0.2:4000 (RANK 1 on there)";
    one.pending_bytes = 4096;
    one.since_ns = test::kReportNow - 3'000'000'000;
    WatchedConnection other = one;
    other.device = "eth1";
    other.sends = false;
    other.since_ns = test::kReportNow - 1'000'000'000;
    WatchedConnection failed = one;
    failed.failed = true;
    failed.since_ns = 1;
    network.connections = {other, one, failed};
    return network;
  };
  const RankReply reply{{0xabc, 0, 100},
                        100,
                        RankAnswer::kAnswered,
                        report_json(job, ReportDepth::kNow, test::kReportNow, test::kReportNow)};
  const JobView view = view_of({reply});
  CHECK(view.waited_for == std::vector<uint32_t>{1});
  REQUIRE(view.ranks[0].state == "waits");
  CHECK(view.ranks[0].call == "2 sends of 4 KiB in NCCL 0000000000000007");
  const std::string table = job_table(view);
  CHECK(has(table, "send to rank 1, eth0, for 3 s"));
  CHECK(has(table, "10.1.0.2:4000 (RANK 1 on there)"));
}

TEST_CASE("ranks of other hosts are seen as those of this one, or named") {
  RankReply seen = report_of({2, 3}, 6);
  seen.elsewhere = true;
  RankReply hostile = report_of({1, {}}, 60000);
  hostile.elsewhere = true;
  const auto elsewhere = [](uint32_t rank, RankAnswer what) {
    return RankReply{{0xabc, rank, 0}, 0, what, "", true};
  };
  const JobView view = view_of({report_of({0, 2}, 6),
                                hostile,
                                seen,
                                elsewhere(3, RankAnswer::kNoAnswer),
                                elsewhere(4, RankAnswer::kGone),
                                elsewhere(5, RankAnswer::kLeftOut)});
  REQUIRE(view.ranks.size() == 6);  // what this host's rank says
  CHECK(view.answered() == 3);
  CHECK(view.ranks[2].state == "waits");
  CHECK(view.ranks[3].state == "does not answer");
  CHECK(view.ranks[4].state == "missing");
  CHECK(has(view.ranks[4].call, "has left, or is gone"));
  CHECK(view.ranks[5].state == "left out");
  CHECK(view.waited_for == std::vector<uint32_t>{3});
}

TEST_CASE("rails are told with the failovers of all ranks of their host, where links have them") {
  CHECK_FALSE(has(job_table(view_of({report_of({0, {}}, 1)})), "failovers"));
  std::vector<RankReply> replies{report_of({0, {}}, 2), report_of({1, {}}, 2)};
  for (RankReply& reply : replies) {
    nlohmann::json report = nlohmann::json::parse(reply.answer);
    auto& rail = report.at("communicators").at(0).at("rails").at(0);
    rail["failovers"] = 3 + reply.name.rank;
    rail["links"] = 2;
    rail["own_share"] = reply.name.rank == 0 ? 0.0 : 1.0;
    reply.answer = report.dump();
  }
  const std::vector<RailView> rails = rails_of(view_of(replies));
  REQUIRE(rails.size() == 1);
  CHECK(rails[0].failovers == 7);
  CHECK(rails[0].own_share() == 0.5);
  const std::string table = job_table(view_of(replies));
  CHECK(has(table, "failovers  carries"));
  CHECK(has(table, "7     50 %"));
  CHECK_FALSE(has(table, "have lost their connections"));
}

TEST_CASE("links that reach their peers over no path have a line of their own") {
  RankReply reply = report_of({0, {}}, 1);
  nlohmann::json report = nlohmann::json::parse(reply.answer);
  auto& rail = report.at("communicators").at(0).at("rails").at(0);
  rail["links"] = 1;
  rail["lost_links"] = 2;
  reply.answer = report.dump();
  CHECK(has(job_table(view_of({reply})),
            ": 2 of 3 links have lost their connections and try all paths"));
  rail["links"] = 0;
  rail["own_share"] = 0.0;
  reply.answer = report.dump();
  CHECK(has(job_table(view_of({reply})), "0      0 %"));
}

TEST_CASE("an interface without carrier says so in the place of its speed") {
  RankReply reply = report_of({0, {}}, 1);
  nlohmann::json report = nlohmann::json::parse(reply.answer);
  report.at("communicators").at(0).at("rails").at(0)["trouble"] = "no carrier";
  reply.answer = report.dump();
  CHECK(has(job_table(view_of({reply})), "no carrier"));
}

TEST_CASE("the rank that enters its calls last is named with how late it is") {
  std::vector<RankReply> replies{
      report_of({0, {}}, 3), report_of({1, {}}, 3), report_of({2, {}}, 3)};
  for (RankReply& reply : replies) {
    nlohmann::json report = nlohmann::json::parse(reply.answer);
    auto& recent = report.at("communicators").at(0).at("recent");
    recent = nlohmann::json::array();
    for (int number = 1; number <= 10; ++number) {
      recent.push_back({0, number, reply.name.rank == 1 ? 5'000'000 : 25'000'000});
    }
    reply.answer = report.dump();
  }
  const JobView view = view_of(replies);
  CHECK(has(job_table(view),
            "\nRank 1 (here) enters its calls last: 20 ms after the middle one, of calls of 25 ms "
            "(medians of 10)\n"));
  const auto json = nlohmann::json::parse(job_json(view));
  CHECK(json.at("late").at(0).at("last") == 1);
  CHECK(json.at("late").at(0).at("tells") == true);
  CHECK(json.at("late").at(0).at("ranks").at(1) == nlohmann::json{{"rank", 1}, {"late_s", 0.02}});
}
