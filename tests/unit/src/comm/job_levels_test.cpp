// The levels that a job's ranks agree on, and which algorithm `auto` takes by them.
#include "comm/job_levels.hpp"

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "must_have.hpp"
#include "scoped_variable.hpp"
#include "temporary_folder.hpp"
#include "topo/consistency.hpp"

namespace ho {
namespace {

using test::must_have;

// Two GPUs a board, two boards a node, three nodes.
NamedLevels three_nodes() {
  cost::Level board;
  board.name = "board";
  board.size = 2;
  board.rate = 100e9;
  board.latency_s = 1e-6;
  cost::Level node = board;
  node.name = "node";
  cost::Level net = board;
  net.name = "net";
  net.size = 3;
  net.rate = 1e9;
  net.latency_s = 1e-3;
  return {"c.json", {board, node, net}};
}

std::vector<uint64_t> positions_on(const char* groups) {
  return must_have(levels_under(three_nodes(), must_have(GroupMap::parse(groups)))).positions;
}

std::string refusal(const std::vector<uint32_t>& sizes) {
  return levels_under(three_nodes(), must_have(GroupMap::from_sizes(sizes))).status().message();
}

SelectionRules rules_on(const JobLevels& job) {
  SelectionRules rules;
  rules.levels = modelled_levels(job, {});
  return rules;
}

Algorithm selected(const SelectionRules& rules, Collective collective, uint64_t bytes) {
  return must_have(select_algorithm(rules, {collective, bytes, bytes, false, std::nullopt}));
}

}  // namespace

TEST_CASE("ranks are placed on levels in the order of their groups") {
  const NamedLevels named = three_nodes();
  const JobLevels job = must_have(levels_under(named, must_have(GroupMap::parse("3x4"))));
  CHECK(job.group_levels == 2);
  CHECK(job.positions == std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(positions_on("1x12").size() == 12);
  // Dealt over the groups in turn.
  const GroupMap dealt = must_have(
      GroupMap::from_labels({"a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c"}));
  CHECK(must_have(levels_under(named, dealt)).positions ==
        std::vector<uint64_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
}

TEST_CASE("levels that hold other ranks or groups than the job has are refused by name") {
  CHECK(refusal({4, 4}) ==
        "c.json: levels of 2 x 2 x 3 hold 12 ranks, not 8: takes sizes with that "
        "product");
  CHECK(refusal({3, 3, 3, 3}) == "c.json: no level ends where groups do, which have 3 to 3 ranks");
  CHECK(refusal({5, 3, 4}) == "c.json: no level ends where groups do, which have 3 to 5 ranks");
}

TEST_CASE("auto goes by the time on levels where they are known, else by bytes") {
  const JobLevels job = must_have(levels_under(three_nodes(), must_have(GroupMap::parse("3x4"))));
  const SelectionRules rules = rules_on(job);
  REQUIRE(rules.levels);
  // A message between nodes takes as long as a megabyte; direct has three in a row, the ring four.
  CHECK(selected(rules, Collective::kAllReduce, 64) == Algorithm::kDirect);
  CHECK(selected(rules, Collective::kAllReduce, 100'000) == Algorithm::kDirect);
  CHECK(selected(rules, Collective::kAllReduce, 10'000'000) == Algorithm::kHoRing);
  CHECK(selected({}, Collective::kAllReduce, 100'000) == Algorithm::kHoRing);
  // No closed forms: by bytes.
  CHECK(selected(rules, Collective::kAllToAll, 8192) == Algorithm::kDirect);
  CHECK(selected(rules, Collective::kAllToAll, 8193) == Algorithm::kHoRing);
  // What is asked for, and what direct cannot do, come first.
  SelectionRules forced = rules;
  forced.forced = Algorithm::kRing;
  CHECK(selected(forced, Collective::kAllReduce, 64) == Algorithm::kRing);
  const SelectionInput sums{Collective::kAllReduce, 64, 64, true, std::nullopt};
  CHECK(must_have(select_algorithm(rules, sums)) == Algorithm::kHoRing);
}

TEST_CASE("a part of a job has its own part of the levels, or goes by bytes") {
  JobLevels part = must_have(levels_under(three_nodes(), must_have(GroupMap::parse("3x4"))));
  part.positions = {4, 5, 6, 7};  // one node: no message of it takes a millisecond
  CHECK(selected(rules_on(part), Collective::kAllReduce, 100'000) == Algorithm::kHoRing);
  part.positions = {1, 5, 9};  // a rank of each
  CHECK(selected(rules_on(part), Collective::kAllReduce, 100'000) == Algorithm::kDirect);
  part.positions = {0, 1, 2, 4, 5};
  CHECK_FALSE(rules_on(part).levels);
}

TEST_CASE("ranks whose levels differ are named with both") {
  const std::array<double, 3> rates{1e9, 1e9, 2e9};
  std::vector<RankInfo> infos(3);
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    NamedLevels named = three_nodes();
    named.levels[2].rate = rates[rank];
    infos[rank].host_name = "node" + std::to_string(rank);
    infos[rank].settings = {setting_of(named)};
  }
  const std::string why = check_consistency(infos).message();
  INFO(why);
  CHECK(has(why, "rank 2 (node2): HORING_LEVELS_FILE=rates 100GB, 100GB, 2GB; "));
  CHECK(has(why, "; 2 ranks have rates 100GB, 100GB, 1GB. "));
  // And where one of them has no file, all of the others'.
  infos[2].settings = {setting_of(std::nullopt)};
  const std::string none = check_consistency(infos).message();
  INFO(none);
  CHECK(has(none, "rank 2 (node2): HORING_LEVELS_FILE=no file; 2 ranks have sizes 2, 2, 3; rates"));
}

TEST_CASE("what is compared of long levels still tells them apart") {
  NamedLevels named = three_nodes();
  named.levels.resize(2);
  const auto share = [&](double last) {
    std::vector<cost::LinearTable::Point> points;
    for (int at = 1; at < 30; ++at) {
      points.push_back({at * 1000.0, 0.5});
    }
    points.back().y = last;
    named.levels[1].share_of_units = cost::LinearTable(points);
    named.levels[1].latency_s = 1e-5 / 3;
    named.levels[0].latency_s = 1e-5 / 7;
    named.levels[0].rate = 1e9 / 3;
    named.levels[1].rate = 1e10 / 3;
    return setting_of(named).value;
  };
  CHECK(share(0.5).size() <= 255);
  CHECK(share(0.5) != share(0.6));
}

TEST_CASE("levels are read where they count, and a file that cannot be is named") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("c.json");
  std::ofstream(path) << R"({"levels": [{"size": 2, "rate": "1GB", "rats": 1}]})";
  CHECK_FALSE(must_have(levels_from_environment()));
  CHECK(setting_of(std::nullopt).value == "no file");
  const test::ScopedVariable variable("HORING_LEVELS_FILE", path);
  CHECK(
      has(levels_from_environment().status().message(), path + ": level 0: \"rats\" is not known"));
  const test::ScopedVariable bytes("HORING_DIRECT_MAX_BYTES", "8192");
  CHECK_FALSE(must_have(levels_from_environment()));
  CHECK(setting_of(std::nullopt).value == "not used, HORING_DIRECT_MAX_BYTES is set");
}

}  // namespace ho
